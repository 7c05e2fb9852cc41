#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// In whose cache a token's row is, of two runs A and B of one recording.
enum class KeptBy : std::uint8_t { kNeither, kOnlyA, kOnlyB, kBoth };

// Whether a run's cache holds a token's row after a block, and the first block by whose end a run has seen so
// many tokens (else its last one).
bool is_kept(const recording::HeadTrace& trace, std::int64_t token, std::int64_t block);
std::int64_t block_having_seen(const recording::RunInfo& run, std::int64_t n_tokens);

// A token that one of two runs kept and the other did not, in one KV head or in several together: of several,
// a token that each run kept in some of them stands there twice.
struct DifferingToken {
  std::int32_t position = 0;
  KeptBy kept_by = KeptBy::kOnlyA;         // or kOnlyB
  int n_heads = 0;                         // KV heads in which it is so
  std::optional<std::int32_t> evicted_at;  // of one head: the block at whose end the other run evicted it
  std::optional<double> margin;            // likewise: by how much it fell short of the cut there
  // What the finished run `none` gave it, Σ of weights of prompt queries, mean over the group, summed over
  // these heads: up to the block at which the other run evicted it, and afterwards. Empty where there is
  // nothing to compute it from.
  std::optional<double> received, afterwards;
};

// One of its rows: of one KV head. `attention_before` and `attention_after` are `received` and `afterwards`.
struct DifferingRow {
  int layer = 0, kv_head = 0;
  std::int32_t position = 0;
  KeptBy kept_by = KeptBy::kOnlyA;
  std::int32_t evicted_at = 0;
  std::optional<double> margin, attention_before, attention_after;
};

struct PolicyDifference {
  std::int64_t block = -1, n_seen = 0;  // of A; B is taken where it had seen as much
  std::vector<KeptBy> kept;             // (n_seen) of one head; empty for several
  std::int64_t n_both = 0, n_only_a = 0, n_only_b = 0, n_neither = 0;  // rows, over all heads
  std::vector<DifferingToken> tokens;  // by what was lost afterwards, then by position
  std::vector<DifferingRow> rows;      // by what was lost afterwards, then by layer, KV head and position
  std::string missing;                 // why no attention is known; else empty
};

// Of heads, one or more, at the end of a block of A.
//   a, b: indices of runs; block: of A; -1: its last prompt block
//   progress: called after every head with heads done and in all
//   cancelled: checked at every band of queries; throws Cancelled once it is true
//   throws FileError as the recording does, InvalidInput on a block that was not done
//   attention: false leaves it out, which takes time that grows with the square of the prompt
PolicyDifference policy_difference(const recording::Recording& recording, int a, int b,
                                   const std::vector<HeadSelection>& heads, std::int64_t block,
                                   bool attention,
                                   const std::function<void(std::int64_t, std::int64_t)>& progress,
                                   const std::atomic<bool>& cancelled);

// What `diff --csv` writes: a line of names, then one line a row. Fields as RFC 4180 has them.
//   name_a, name_b: of the runs
std::string difference_csv(const recording::RecordingInfo& info, const PolicyDifference& difference, int a,
                           int b);

}  // namespace keyscope::measures
