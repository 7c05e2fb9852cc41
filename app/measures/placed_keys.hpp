#pragma once

#include <cstdint>
#include <vector>

#include "capture/model/config.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

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
  int kv_head_;
  RowMatrixF unrotated_;  // (n_keys, head_dim)
};

}  // namespace keyscope::measures
