#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "analysis/policies/policy.hpp"
#include "capture/inference/layer_run.hpp"
#include "capture/model/model.hpp"

namespace keyscope::capture {

// What a run does from here on.
struct StateRule {
  const analysis::Policy* policy = nullptr;  // null: nothing is evicted
  std::int64_t budget = 0;                   // N, where there is a policy
  bool counts_attention = false;             // for a policy that will ask what rows have received all along
  std::int64_t most_tokens = 0;              // that it will ever have seen: caches are made for these
};

// Rows that a layer's cache is made for, per KV head, in a run that begins under this rule or takes it up.
std::vector<std::int64_t> cache_rows(const ModelConfig& config, std::int64_t block_size,
                                     const StateRule& rule, int layer);

// One run at a block boundary: every layer's cached rows with their positions and the attention they have
// received, how many tokens were read, and what the last of them left. Nothing is recorded of it. The model
// and the policy must outlive it.
class RunState {
 public:
  RunState(const Model& model, std::int64_t block_size, const StateRule& rule);

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

  std::int64_t position() const { return position_; }             // of the next token
  const at::Tensor& last_hidden() const { return last_hidden_; }  // (1, hidden_size) of the newest token
  double mean_rows() const;  // cached per KV head, mean over all layers and heads

 private:
  RunState(const Model& model, std::int64_t block_size);
  LayerPlan layer_plan(int layer, const StateRule& rule) const;
  EvictionRule eviction(int layer, const StateRule& rule) const;
  void leave_open(std::span<const StateRule> rules);

  const Model& model_;
  std::int64_t block_size_;
  std::vector<std::unique_ptr<LayerRun>> layers_;
  std::int64_t position_ = 0;
  at::Tensor last_hidden_;
};

}  // namespace keyscope::capture
