#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "app/measures/head_data.hpp"
#include "app/measures/score_history.hpp"
#include "app/measures/token_attention.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// Everything that a recording tells of one token in one head of one run: what `inspect --token` prints and
// the window's token panel shows.
struct TokenStory {
  HeadSelection head;
  std::int32_t position = 0;
  std::int32_t id = -1;                    // -1: not known
  std::string text, before, after;         // bytes of the token and of some before and after it
  std::int64_t arrived = 0;                // the block it came with
  std::optional<std::int32_t> evicted_at;  // the block at whose end it went
  std::optional<double> evicted_margin;    // lowest score kept without being forced, minus its own
  std::optional<double> attention_received, attention_per_query;  // from the run's prompt queries, group mean
  TokenAttention attention;
  ScoreHistory scores;
  std::optional<Afterlife> afterwards;  // of an evicted token
  std::string afterwards_missing;       // why there is none: "it stayed"
};

//   cancelled: throws Cancelled once it is true
//   throws FileError as the recording does, InvalidInput on a position that the run has not seen
TokenStory tell_token(const recording::Recording& recording, const HeadSelection& head, std::int64_t position,
                      const std::atomic<bool>& cancelled);

// What is not known is null; why, stands beside it.
nlohmann::ordered_json token_story_json(const recording::RecordingInfo& info, const TokenStory& story);

// A token's bytes and id: of the prompt, or of what the run generated. Empty and -1 where they are not known.
std::string token_bytes(const recording::RecordingInfo& info, int run, std::int64_t position);
std::int32_t token_id(const recording::RecordingInfo& info, int run, std::int64_t position);

}  // namespace keyscope::measures
