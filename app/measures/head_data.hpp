#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/attention_rules.hpp"
#include "analysis/matrix_view.hpp"
#include "capture/model/config.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// What the measures of one head are computed from, read out of a recording and checked.
struct HeadSelection {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
};

// The end of a block of a run.
struct BlockEnd {
  std::int64_t block = -1;  // -1: before the first block
  std::int64_t n_seen = 0;
};

// One head over the prompt tokens that the run has seen; matrices without rows were not recorded.
struct HeadData {
  RowMatrixF keys;     // (n_prompt_seen, head_dim)
  RowMatrixF queries;  // (group_size * n_prompt_seen, head_dim), query head after query head
  std::vector<std::int32_t> query_positions;  // (group_size * n_prompt_seen)
  // (n_tokens) evicted_at; attention (n_prompt_seen)
  recording::HeadTrace trace;
};

// The finished `none` run of the same prompt, over the prompt tokens seen by the end of a block of another
// run. Keys, values and queries have no rows unless all three were recorded.
struct FullCacheData {
  std::int64_t n_seen = 0;
  std::vector<double> attention_received;       // (n_seen)
  RowMatrixF keys;                              // (n_seen, head_dim)
  RowMatrixF values;                            // (n_seen, head_dim)
  RowMatrixF queries;                           // (group_size * M, head_dim) of the last M positions
  std::vector<std::int32_t> query_positions;    // (group_size * M)
  std::vector<analysis::AttentionRules> rules;  // (group_size)
};

// The run of that index; throws FileError where there is none.
const recording::RunInfo& run_of(const recording::RecordingInfo& info, int run);

// Index of the first `none` run that finished its prompt, of one with a quantised cache only where there is
// no other; -1 if there is none.
int full_cache_run(const recording::RecordingInfo& info);

// The end of block `at_block`, or of the last prompt block done for -1.
//   throws InvalidInput on a block that was not done
BlockEnd find_block_end(const recording::RecordingInfo& info, int run, std::int64_t at_block);

// Positions below n_seen whose rows the policy has left alone up to the end of a block: what is retained
// then, and in a layer with a sliding window also what was only dropped because the window had passed it.
//   evicted_at: (n_tokens) of one KV head of that run; ascending result
std::vector<std::int32_t> spared_by_policy(const recording::RunInfo& run,
                                           const std::vector<std::int32_t>& evicted_at, const BlockEnd& end,
                                           std::int64_t n_seen, std::int64_t window);

// with_queries, with_keys, with_rows: false leaves out what takes long to read and is not needed.
// All three throw FileError as the recording does, and on entries that are not finite, naming the place.
HeadData read_head(const recording::Recording& recording, const recording::RecordingInfo& info,
                   const HeadSelection& selection, bool with_queries = true, bool with_keys = true);
RowMatrixF read_retained_keys(const recording::Recording& recording, const recording::RecordingInfo& info,
                              const HeadSelection& selection, const HeadData& head,
                              const std::vector<std::int32_t>& retained);
std::optional<FullCacheData> read_full_cache(const recording::Recording& recording,
                                             const recording::RecordingInfo& info,
                                             const HeadSelection& selection, std::int64_t n_seen,
                                             bool with_rows = true);

// One KV head's keys in a run with `--positions cache`, where rows are rotated by their place in the cache
// (StreamingLLM, arXiv 2309.17453, Section 3.2). A recorded key has the rotation of the place that it came
// to; whenever rows before it go, it moves up and is rotated anew. As exact as the dtype that the recorded
// keys were rounded to.
class PlacedKeys {
 public:
  // keys: (n_keys, head_dim) of the run's first n_keys tokens, as recorded
  //   throws FileError where the recording's config.json, which has the rotary frequencies, cannot be read
  PlacedKeys(const recording::Recording& recording, int run, int layer, int kv_head, RowMatrixF keys);

  // As the queries of a block met them: (n_keys, head_dim), zero where the row was not there.
  RowMatrixF met_by(std::int64_t block) const;

 private:
  std::int64_t first_of(std::int64_t block) const;
  std::int64_t end_of(std::int64_t block) const;
  std::vector<std::int32_t> present(const std::vector<std::int32_t>& evicted_at, std::int64_t block) const;
  RowMatrixF turned(const RowMatrixF& keys, std::int64_t block, std::int64_t from, bool back) const;

  recording::RunInfo run_;
  capture::ModelConfig config_;
  std::vector<std::vector<std::int32_t>> evicted_at_;  // [n_kv_heads][n_tokens]
  int layer_, kv_head_;
  RowMatrixF unrotated_;  // (n_keys, head_dim)
};

}  // namespace keyscope::measures
