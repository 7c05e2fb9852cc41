#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "analysis/policies/policy.hpp"
#include "capture/inference/completion.hpp"
#include "capture/inference/layer_run.hpp"
#include "capture/model/model.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// What a run does from here on.
struct StateRule {
  const analysis::Policy* policy = nullptr;    // null: nothing is evicted
  std::int64_t budget = 0;                     // N, where there is a policy
  Counts counts = {};                          // for policies that will ask what was all along
  std::int64_t most_tokens = 0;                // that it will ever have seen: caches are made for these
  std::span<const std::int64_t> budgets = {};  // as split_budgets gives them; empty: `budget` everywhere
  std::span<const std::int32_t> watched = {};  // as LayerPlan has them

  std::vector<std::int64_t> layer_budgets(const ModelConfig& config, int layer) const;
};

// Rows that a layer's cache is made for, per KV head, in a run that begins under this rule or takes it up.
std::vector<std::int64_t> cache_rows(const ModelConfig& config, std::int64_t block_size,
                                     const StateRule& rule, int layer);

// One run at a block boundary: every layer's cached rows with their positions and the attention they have
// received, how many tokens were read, and what the last of them left. Nothing is recorded of it. The model
// and the policy must outlive it.
class RunState {
 public:
  RunState(const Model& model, const CompletionSettings& settings, const StateRule& rule);

  // A run that goes on from here by itself. Costs a copy of the rows that there are. Evicts by its rule where
  // that was left open.
  std::unique_ptr<RunState> fork(const StateRule& rule) const;
  // Goes on under another rule, without a copy; most_tokens is no more than it was. Evicts by it where that
  // was left open.
  void follow(const StateRule& rule);

  // Takes the next block, at most block_size tokens, through all layers and evicts; returns the hidden states
  // (n, hidden_size) that the last layer gave.
  //   open: rules by one of which every run goes on from the block's end, whose policies therefore share its
  //   forward pass; nothing is evicted before `fork` or `follow` says by which. Empty: its own rule decides.
  //   throws InvalidInput naming the layer where attention meets NaN or Inf
  at::Tensor run_block(std::span<const std::int32_t> ids, std::span<const StateRule> open = {});

  // The next token of each of several states, in one pass over the weights: see LayerRun::run.
  //   ids: one each
  static void run_tokens(std::span<RunState* const> states, std::span<const std::int32_t> ids);

  std::int64_t position() const { return position_; }             // of the next token
  const at::Tensor& last_hidden() const { return last_hidden_; }  // (1, hidden_size) of the newest token
  double mean_rows() const;  // cached per KV head, mean over all layers and heads
  const std::vector<CacheSize>& sizes() const { return sizes_; }  // after every block so far
  std::vector<LostRow> lost() const;                              // of the watched rows, by layer

 private:
  RunState(const Model& model, const CompletionSettings& settings);
  LayerPlan layer_plan(int layer, const StateRule& rule) const;
  EvictionRule eviction(int layer, const StateRule& rule) const;
  void leave_open(std::span<const StateRule> rules);
  void end_prompt();
  void note_size();  // of what is held now, after the newest block
  // Of each state the next `n` ids, through all layers.
  static at::Tensor run(std::span<RunState* const> states, std::span<const std::int32_t> ids, std::int64_t n);
  static const LayerRun* lender_of(const RunState& state, int layer);

  const Model& model_;
  CompletionSettings settings_;
  std::vector<std::unique_ptr<LayerRun>> layers_;
  std::int64_t position_ = 0;
  bool prompt_ended_ = false;
  std::vector<CacheSize> sizes_;
  at::Tensor last_hidden_;
};

// A completion that grows after its prompt, token by token.
class GrowingText {
 public:
  //   last_prompt_id: what the first generated token's text comes after
  GrowingText(const Model& model, const Continuation& continuation, std::int32_t last_prompt_id);

  // Takes the token that these logits (vocab) choose.
  void take(std::vector<float> logits);
  bool has_ended() const { return ended_; }
  std::int32_t last_id() const { return before_; }  // what is to be fed back where it has not

  Completion& completion() { return completion_; }

 private:
  const Model& model_;
  const Continuation& continuation_;
  Completion completion_;
  std::vector<std::int32_t> endings_;  // ids after which nothing follows
  std::int32_t before_;
  bool ended_;
};

// The text that an id adds after the id before it: at the beginning of a text, decoders of the SentencePiece
// kind drop a space that belongs here. Empty where the model has no tokenizer.
std::string added_text(const Model& model, std::int32_t before, std::int32_t id);

// float32 logits (n · vocab), position after position.
//   hidden: (n, hidden_size) that the last layer gave for positions first, …
//   throws InvalidInput where one is not finite
std::vector<float> finite_logits(const Transformer& transformer, const at::Tensor& hidden,
                                 std::int64_t first);

// The same row by row, of tokens of any positions.
std::vector<std::vector<float>> finite_logits(const Transformer& transformer, const at::Tensor& hidden,
                                              std::span<const std::int64_t> positions);

// ln p(next_ids[i]) by the hidden states (n, hidden_size) that the last layer gave for positions first, …:
// the softmax over the vocabulary, in float64. Logits are made of a few positions at a time and reduced at
// once, 16 MiB of them however many positions there are.
//   next_ids: at most n; rows past them are not looked at
//   throws InvalidInput where a logit is not finite
std::vector<double> log_probabilities(const Transformer& transformer, const at::Tensor& hidden,
                                      std::span<const std::int32_t> next_ids, std::int64_t first);

}  // namespace keyscope::capture
