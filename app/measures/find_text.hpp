#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// Tokens first to last, both included, that a found text lies in.
struct TextMatch {
  std::int64_t first = 0, last = 0;
  bool operator==(const TextMatch&) const = default;
};

// Where `wanted` stands in the prompt and in what the run generated, in order, without overlaps; it may begin
// and end inside tokens. Latin letters match in either case. Nothing is found for an empty text.
std::vector<TextMatch> find_text(const recording::RecordingInfo& info, int run, std::string_view wanted);

}  // namespace keyscope::measures
