#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

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

}  // namespace keyscope::measures
