#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/attention_rules.hpp"
#include "analysis/matrix_view.hpp"
#include "analysis/policies/unrotated.hpp"
#include "capture/model/config.hpp"
#include "capture/model/rotary_frequencies.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::capture {

// What attention did in a layer of the recorded model, by the config.json that the recording holds; by what
// most models do, 1/√head_dim and nothing else, where that is of no model that can be run here.
// Without sinks, which are of a query head: see group_rules.
analysis::AttentionRules recorded_rules(const recording::RecordingInfo& info, int layer);

// The same of each query head of a KV head's group, with its learned sink.
//   throws FileError where the model has sinks and their scores were not recorded (a capture that was killed
//   before its first block), without which no weight can be told
std::vector<analysis::AttentionRules> group_rules(const recording::Recording& recording,
                                                  const recording::RecordingInfo& info, int run, int layer,
                                                  int kv_head);

// The configuration by which these layers were captured.
//   throws FileError where the recording's config.json is of no model that can be run here, or of another
//   shape than the heads that were recorded
ModelConfig recorded_config(const recording::RecordingInfo& info, std::span<const int> layers);

// How queries and keys of a recorded layer turned with their positions (RoPE).
class RecordedRope {
 public:
  //   throws FileError as recorded_config
  RecordedRope(const recording::RecordingInfo& info, int run, int layer);

  // As the engine has it for policies: by the frequencies of a text no longer than the original context.
  const analysis::Rotation& rotation() const { return rotation_; }

  // Queries of one head as they were before they turned, each by the frequencies of the block that it was
  // captured in; as exact as the dtype that turned queries were rounded to.
  //   queries: (n, head_dim) of the positions from `first` on, as recorded
  RowMatrixF unrotated(const MatrixView& queries, std::int64_t first) const;

 private:
  std::int64_t length_seen(std::int64_t position) const;
  double growth(std::int64_t position) const;

  ModelConfig config_;
  bool turns_ = false, local_ = false;
  RotaryFrequencies frequencies_;
  analysis::Rotation rotation_;
  std::vector<std::int32_t> block_start_;
  std::int64_t n_prompt_;
};

}  // namespace keyscope::capture
