#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  // Waits while paused; throws when cancelled.
  //   first: the position of the block's first token; empty where one layer's blocks are taken by themselves
  std::function<void(std::optional<std::int64_t> first)> before_block;
  std::function<bool()> holds_up;  // whether before_block may wait now
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

  // The next block through all layers: of the prompt as far as it was not read layer by layer, then of what
  // is generated, a token each. Hands over the prompt's result once it is read, and the run's end.
  //   returns whether there is more
  bool advance();
  // The same of several runs that have all read their prompt: each one's next token, in one pass over the
  // weights. What each generates is what it would alone; `block_ms` is the pass's.
  //   returns whether any of them has more
  static bool advance(std::span<PolicyRun* const> runs);
  bool has_read_prompt() const { return stage_ != Stage::kPrompt; }  // and its result is handed over
  std::int64_t next_position() const { return position_; }           // of the next block's first token

  const recording::RunPlan& run_plan() const { return run_plan_; }
  int index() const { return run_; }

  // Hands over how a recorded layer's experts were chosen for tokens from `first` on; nothing where it has
  // none.
  void deliver(const Routing& routing, int layer, std::int64_t first);
  RunOutcome outcome() const { return outcome_; }

 private:
  LayerPlan layer_plan(int layer) const;
  // A run's next block: its ids, at least one.
  struct NextBlock {
    PolicyRun& run;
    std::span<const std::int32_t> ids;
  };
  // Takes them through all layers at once; hidden becomes what the last layer gave, (all ids, hidden_size).
  static std::vector<std::shared_ptr<recording::BlockRecord>> run_blocks(std::span<const NextBlock> blocks,
                                                                         at::Tensor& hidden);
  static void run_layer(std::span<const NextBlock> blocks, const LayerWeights& weights, int index,
                        std::span<const std::shared_ptr<recording::BlockRecord>> records, at::Tensor& hidden);
  std::shared_ptr<recording::BlockRecord> next_record(std::int64_t n_tokens);
  void evict_together(recording::BlockRecord& record);
  void finish_records(int index);  // of a layer that the block has been through; of none for -1
  void check_before(int index);    // says what is left to be said of the layers before
  void note_cache_bytes();
  void deliver(const std::shared_ptr<const recording::BlockRecord>& record);

  void read_prompt_block();
  void end_prompt();
  static void feed_back(std::span<PolicyRun* const> runs);  // the last token of each
  bool end_unless_more();
  void keep_top_logits();

  bool prompt_read() const { return position_ >= context_.plan.n_prompt(); }
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
  enum class Stage { kPrompt, kGenerating, kEnded } stage_ = Stage::kPrompt;
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
