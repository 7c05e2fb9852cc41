#include "app/measures/find_text.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace keyscope::measures {

namespace {

// The token that a byte of the text belongs to; tokens without text are passed over.
std::int64_t token_at(const std::vector<std::int64_t>& offsets, std::size_t byte) {
  return std::ranges::upper_bound(offsets, static_cast<std::int64_t>(byte)) - offsets.begin() - 1;
}

}  // namespace

std::vector<TextMatch> find_text(const recording::RecordingInfo& info, int run, std::string_view wanted) {
  std::vector<TextMatch> matches;
  if (wanted.empty()) return matches;
  const recording::TokenText& generated = info.runs.at(run).generated;
  const std::string text = lower_case(info.prompt.text + generated.text), needle = lower_case(wanted);
  std::vector<std::int64_t> offsets = info.prompt.offset;
  if (offsets.empty()) offsets.push_back(0);
  for (std::size_t i = 1; i < generated.offset.size(); ++i)
    offsets.push_back(static_cast<std::int64_t>(info.prompt.text.size()) + generated.offset[i]);
  for (std::size_t at = text.find(needle); at != std::string::npos;
       at = text.find(needle, at + needle.size()))
    matches.push_back({token_at(offsets, at), token_at(offsets, at + needle.size() - 1)});
  return matches;
}

}  // namespace keyscope::measures
