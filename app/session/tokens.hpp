#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/session/head_points.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// What is known of one token in one head of one run, at the end of a block.
struct TokenFacts {
  std::int32_t position = 0;
  std::int32_t id = 0;       // -1: not known (a generated token of a run that is still going on)
  std::string text;          // as token_label shows it
  std::int64_t arrived = 0;  // the block it came with
  bool retained = true;      // after the chosen block
  std::optional<std::int32_t> evicted_at;  // the block at whose end it goes, also if that is later
  std::optional<float> evicted_margin;
  std::optional<double> score;  // KeyDiff's, -cos(key, mean of the keys seen by then); larger is kept
  std::optional<double> attention_received;  // from prompt queries, mean over the group
  std::optional<double> attention_per_query;
};

// The token's bytes: of the prompt, or of what the run generated. Empty where they are not known.
std::string token_bytes(const recording::RecordingInfo& info, int run, std::int64_t position);

//   throws InvalidInput on a position or block that `points` does not have
TokenFacts token_facts(const recording::RecordingInfo& info, const HeadPoints& points, std::int64_t block,
                       std::int64_t position);

}  // namespace keyscope::session
