#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/policies/policy.hpp"
#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// The policy of a run, with the options that it records; null for `none`, and for one that is not known here.
std::unique_ptr<analysis::Policy> recorded_policy(const recording::RecordingInfo& info,
                                                  const recording::RunInfo& run);

// A token before the policy at the end of one block.
struct ScoreAtBlock {
  std::int64_t block = 0;
  double score = 0;
  std::int64_t rank = 0;    // 1: the highest of all
  std::int64_t n_rows = 0;  // that were scored
  bool forced = false;      // kept whatever it scored
  std::optional<double>
      cut;  // lowest score of a row that was kept without being forced; empty where none went
};

// A token's scores from the block that it came with to the one that it was evicted at, or the last one done.
struct ScoreHistory {
  std::vector<ScoreAtBlock> blocks;
  std::string missing;  // why there are none: "tova scores by attention, …"; else empty
};

// Computed again by the run's policy from recorded keys (and values) of the rows that its cache held, which
// is exact as far as the keys were stored exactly. At the block of an eviction, cut - score is the recorded
// evicted_margin.
//   cancelled: checked at every block; throws Cancelled once it is true
//   throws FileError as the recording does, InvalidInput on a position that the run has not seen
ScoreHistory score_history(const recording::Recording& recording, const HeadSelection& selection,
                           std::int64_t position, const std::atomic<bool>& cancelled);

// Another token, and the weight between the two: mean over the group's query heads.
struct AttentionPeer {
  std::int32_t position = 0;
  double weight = 0;
};

// One token's side of attention in a run, from recorded weights or recomputed from queries and keys.
struct TokenAttention {
  std::vector<AttentionPeer> attended_to;  // the rows that its own query gave most, descending
  std::vector<AttentionPeer> attended_by;  // the queries that gave it most, descending, its own left out
  std::string missing;                     // why there is neither: "queries were not recorded"; else empty
};

// What the finished run `none` gave a token after another run had evicted it.
struct Afterlife {
  std::int64_t n_queries = 0;       // of the prompt, after the eviction
  double received = 0;              // Σ of their weights on it, mean over the group
  double received_in_all = 0;       // the same over all the prompt's queries, as `none` recorded it
  std::optional<double> per_query;  // received / n_queries
};

//   n_most: how many peers of each kind at most
//   cancelled: checked at every band of queries; throws Cancelled once it is true
//   throws FileError as the recording does
TokenAttention token_attention(const recording::Recording& recording, const HeadSelection& selection,
                               std::int64_t position, std::size_t n_most, const std::atomic<bool>& cancelled);

// Of prompt queries that came after the block at whose end the token was evicted; empty where there is no
// finished run `none`, nothing to compute its weights from, or the token stayed.
//   throws as token_attention
std::optional<Afterlife> attention_afterwards(const recording::Recording& recording,
                                              const HeadSelection& selection, std::int64_t position,
                                              const std::atomic<bool>& cancelled);

// Everything that a recording holds about one token in one head of one run: what `inspect --token` prints and
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
TokenStory token_story(const recording::Recording& recording, const HeadSelection& head,
                       std::int64_t position, const std::atomic<bool>& cancelled);

// What is not known is null; why, stands beside it.
nlohmann::ordered_json token_story_json(const recording::RecordingInfo& info, const TokenStory& story);

// A token's bytes and id: of the prompt, or of what the run generated. Empty and -1 where they are not known.
std::string token_bytes(const recording::RecordingInfo& info, int run, std::int64_t position);
std::int32_t token_id(const recording::RecordingInfo& info, int run, std::int64_t position);

}  // namespace keyscope::measures
