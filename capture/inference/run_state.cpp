#include "capture/inference/run_state.hpp"

#include <cstddef>
#include <utility>

#include "capture/inference/memory_need.hpp"

namespace keyscope::capture {

std::vector<std::int64_t> cache_rows(const ModelConfig& config, std::int64_t block_size,
                                     const StateRule& rule, int layer) {
  recording::RunPlan run;
  run.budget = rule.budget;
  run.block_size = block_size;
  const bool evicts = rule.policy != nullptr && rule.policy->evicts(layer);
  return cache_rows(config, run, rule.most_tokens, layer, evicts);
}

RunState::RunState(const Model& model, std::int64_t block_size) : model_(model), block_size_(block_size) {}

RunState::RunState(const Model& model, std::int64_t block_size, const StateRule& rule)
    : RunState(model, block_size) {
  for (int layer = 0; layer < model.config().n_layers; ++layer)
    layers_.push_back(std::make_unique<LayerRun>(model.transformer(), layer_plan(layer, rule)));
}

std::unique_ptr<RunState> RunState::fork(const StateRule& rule) const {
  std::unique_ptr<RunState> forked(new RunState(model_, block_size_));
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    forked->layers_.push_back(layers_[layer]->fork(layer_plan(static_cast<int>(layer), rule)));
  forked->position_ = position_;
  forked->last_hidden_ = last_hidden_;
  return forked;
}

void RunState::follow(const StateRule& rule) {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->follow(eviction(static_cast<int>(layer), rule), rule.counts_attention);
}

EvictionRule RunState::eviction(int layer, const StateRule& rule) const {
  const auto n_heads = static_cast<std::size_t>(model_.config().n_kv_heads);
  return {rule.policy, std::vector<std::int64_t>(n_heads, rule.budget), layer};
}

LayerPlan RunState::layer_plan(int layer, const StateRule& rule) const {
  LayerPlan plan;
  plan.layer = layer;
  plan.block_size = block_size_;
  plan.eviction = eviction(layer, rule);
  plan.capacities = cache_rows(model_.config(), block_size_, rule, layer);
  plan.counts_attention = rule.counts_attention;
  plan.recording.layer = false;
  return plan;
}

at::Tensor RunState::run_block(std::span<const std::int32_t> ids, std::span<const StateRule> open) {
  const Transformer& transformer = model_.transformer();
  leave_open(open);
  at::Tensor hidden = transformer.embed(ids);
  for (int layer = 0; layer < model_.config().n_layers; ++layer) {
    const auto weights = transformer.weights().layer(layer);
    transformer.weights().prefetch(layer + 1);
    layers_[static_cast<std::size_t>(layer)]->run(
        *weights, hidden, position_, [] {}, [](std::int64_t, const recording::LayerBlock&) {});
    transformer.weights().release(layer);
  }
  position_ += std::ssize(ids);
  last_hidden_ = hidden.narrow(0, hidden.size(0) - 1, 1).clone();
  return hidden;
}

void RunState::leave_open(std::span<const StateRule> rules) {
  if (rules.empty()) return;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    std::vector<EvictionRule> evictions;
    for (const StateRule& rule : rules) evictions.push_back(eviction(static_cast<int>(layer), rule));
    layers_[layer]->leave_open(std::move(evictions));
  }
}

double RunState::mean_rows() const {
  double rows = 0, n_heads = 0;
  for (const auto& layer : layers_)
    for (int head = 0; head < layer->cache().n_heads(); ++head) {
      rows += static_cast<double>(layer->cache().n_rows(head));
      n_heads += 1;
    }
  return rows / n_heads;
}

}  // namespace keyscope::capture
