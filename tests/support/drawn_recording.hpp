#pragma once

#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// A recording made up of drawn numbers, with every part open to a test that wants it otherwise. Two runs,
// `none` and `keydiff`, of one layer (index 3) with two KV heads of two query heads each; 40 prompt tokens in
// blocks of 8, then three generated ones. goldens/head_measures.py draws the same numbers.
class DrawnRecording : public recording::Recording {
 public:
  struct Head {
    RowMatrixF keys, values;
    std::vector<RowMatrixF> queries;
    recording::HeadTrace trace;
  };

  DrawnRecording();

  recording::RecordingInfo about;
  std::vector<std::vector<Head>> heads;            // [run][kv_head]
  std::vector<RowMatrixF> all_logits;              // [run]
  recording::AttentionStatistics about_attention;  // of every run; empty at first

  std::shared_ptr<const recording::RecordingInfo> info() const override;
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override;
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override;
  recording::AttentionStatistics statistics(int, int) const override { return about_attention; }
  RowMatrixF attention(int run, int layer, int query_head, std::int64_t first,
                       std::int64_t count) const override;
  RowMatrixF logits(int run) const override;
};

}  // namespace keyscope::measures
