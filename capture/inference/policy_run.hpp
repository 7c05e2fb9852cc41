#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/inference/capture.hpp"
#include "capture/inference/layer_run.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// What every run of a capture works with.
struct CaptureContext {
  const Model& model;
  const CaptureOptions& options;
  const recording::RecordPlan& plan;
  std::span<recording::RecordSink* const> sinks;
  std::function<void()> before_block;  // waits while paused; throws when cancelled
  std::function<void(int run, std::int64_t block, std::int64_t n_tokens, int n_layers)> after_block;
};

// One policy's run over the prompt and the generated tokens: what it keeps between blocks, and what both
// schedules do alike. A schedule takes the prompt through the layers; generation goes block by block.
class PolicyRun {
 public:
  PolicyRun(const CaptureContext& context, int run);

  // The run's state in one layer, made when it is first asked for.
  LayerRun& layer(int index);
  // A layer whose prompt has been read, and which nothing asks for any more unless tokens are fed back.
  void finish_prompt_layer(int index);

  // Takes hidden states that the last layer gave, for positions first, first + 1, … of the prompt: logits are
  // read where they are wanted, and nowhere else.
  void take_output(const at::Tensor& hidden, std::int64_t first);

  // Prompt block by prompt block through all layers, as a device does.
  void run_prompt_by_blocks();
  // After the prompt: hands over its result, generates, ends.
  void generate();

  const recording::RunPlan& run_plan() const { return run_plan_; }
  int index() const { return run_; }
  RunOutcome outcome() const { return outcome_; }

 private:
  LayerPlan layer_plan(int layer) const;
  std::shared_ptr<recording::BlockRecord> run_block(std::span<const std::int32_t> ids, at::Tensor& hidden);
  void deliver(const std::shared_ptr<const recording::BlockRecord>& record);

  // float32 logits of hidden states; throws InvalidInput where one is not finite.
  void keep_top_logits();

  bool feeds_back() const { return run_plan_.max_generated > 1; }
  bool generation_ended() const;
  void generate_next(std::int32_t& next_id, std::string& next_text);  // from the last logits

  const CaptureContext& context_;
  const recording::RunPlan& run_plan_;
  int run_;
  std::unique_ptr<analysis::Policy> policy_;
  std::vector<std::unique_ptr<LayerRun>> layers_;  // null until it is needed
  std::int64_t position_ = 0;                      // of the next token
  int block_ = 0;
  recording::PromptResult prompt_result_;
  std::vector<float> last_logits_;  // (vocab) after the newest token
  recording::TokenText generated_;
  RunOutcome outcome_;
};

// Takes the prompt through the model layer by layer: every layer's weights are read once for all blocks of
// all runs. Eviction in a layer depends on that layer alone, so the result is that of the block schedule.
void run_prompts_by_layers(const CaptureContext& context,
                           const std::vector<std::unique_ptr<PolicyRun>>& runs);

// Tokens that go through a layer's matrix products at once: a whole number of blocks.
std::int64_t chunk_tokens(std::int64_t block_size);

}  // namespace keyscope::capture
