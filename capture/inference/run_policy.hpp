#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/inference/capture.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/inference/layer_step.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// One policy's run over the prompt and the generated tokens, block by block through all layers.
class PolicyRun {
 public:
  PolicyRun(const Model& model, const CaptureOptions& options, const recording::RecordPlan& plan, int run,
            std::span<recording::RecordSink* const> sinks);

  // Runs all blocks; `before_block` is called ahead of each and may throw, `after_block` with its token
  // count.
  RunOutcome run(const std::function<void()>& before_block,
                 const std::function<void(std::int64_t block, std::int64_t n_tokens)>& after_block);

 private:
  // A block that went through all layers, and what is to be told of it.
  struct BlockOutput {
    at::Tensor hidden;  // (n, hidden_size) of the last layer
    std::shared_ptr<recording::BlockRecord> record;
  };
  BlockOutput run_block(std::span<const std::int32_t> ids, bool prompt);
  LayerStep layer_step(int layer, std::int64_t n_new, bool prompt) const;
  void tell(const BlockOutput& output);

  // float32 logits of hidden states; throws InvalidInput where one is not finite.
  std::vector<float> finite_logits(const at::Tensor& hidden) const;
  void keep_scored_logits(const at::Tensor& hidden);
  void keep_last_logits(const at::Tensor& hidden);
  void tell_prompt_result();

  bool generation_ended() const;
  void generate_next(BlockOutput& output);  // from the last logits

  const Model& model_;
  const CaptureOptions& options_;
  const recording::RecordPlan& plan_;
  const recording::RunPlan& run_plan_;
  int run_;
  std::span<recording::RecordSink* const> sinks_;
  std::unique_ptr<analysis::Policy> policy_;
  std::vector<KvCache> caches_;  // one per layer
  std::int64_t position_ = 0;    // of the next token
  int block_ = 0;
  recording::PromptResult prompt_result_;
  std::vector<float> last_logits_;  // (vocab) after the newest token
  recording::TokenText generated_;
  RunOutcome outcome_;
};

}  // namespace keyscope::capture
