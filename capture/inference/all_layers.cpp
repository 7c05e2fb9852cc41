// What is decided at a block's end for all layers of a run together: that they hold one set of rows
// (granularity=model), or how many rows each may hold (split=cake).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/policies/layer_budgets.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "analysis/policies/slots.hpp"
#include "capture/inference/layer_run.hpp"

namespace keyscope::capture {

//   open: the layers that have keys of their own and are evicted
std::vector<LayerEviction> LayerRun::evict_one_set(std::span<LayerRun* const> open) {
  const EvictionRule& rule = open.front()->plan_.eviction;
  const auto above = [](const LayerRun* layer) { return layer->plan_.eviction.above(layer->cache()); };
  if (std::ranges::none_of(open, above)) return {};
  std::vector<LayerRanks> ranks;
  std::vector<std::vector<analysis::RankedRows>> rows;
  for (LayerRun* layer : open)
    ranks.push_back(rank_layer(layer->plan_.eviction, *layer->arithmetic_, *layer->open_block_));
  for (std::size_t i = 0; i < open.size(); ++i) rows.push_back(ranks[i].rows(open[i]->cache()));
  auto selections = analysis::select_model(rule.policy->slots(), rows, rule.cut());
  std::vector<LayerEviction> evictions;
  for (std::size_t i = 0; i < open.size(); ++i)
    evictions.push_back(retain(open[i]->arithmetic_->cache(), std::move(selections[i])));
  return evictions;
}

// One query tells no variance: what the eviction before had measured holds on, as it does for all tokens that
// are generated. Nothing is measured where nothing is to go, so that blocks in common with runs of other
// policies leave no trace.
std::vector<LayerEviction> LayerRun::evict_as_dealt(std::span<LayerRun* const> open) {
  const EvictionRule& rule = open.front()->plan_.eviction;
  const analysis::Slots& slots = rule.policy->slots();
  std::int64_t n_held = 0;
  std::vector<std::int64_t> n_rows;
  for (const LayerRun* layer : open) {
    n_rows.push_back(layer->cache().largest_rows());
    n_held += n_rows.back();
  }
  if (n_held <= std::ssize(open) * slots.most_rows(rule.nominal)) return {};
  std::vector<double> log_shares;
  for (LayerRun* layer : open) {
    if (layer->open_block_->n_queries > 1)
      layer->cake_share_ = layer_preference(*layer->arithmetic_, *layer->open_block_).log_share(slots.cake);
    log_shares.push_back(layer->cake_share_);
  }
  const auto budgets = analysis::cake_budgets(log_shares, rule.nominal,
                                              analysis::protected_everywhere(slots.protect, rule.nominal),
                                              n_rows, slots.unit());
  std::vector<LayerEviction> evictions(open.size());
  for (std::size_t i = 0; i < open.size(); ++i) {
    LayerRun& layer = *open[i];
    EvictionRule own = layer.plan_.eviction;
    std::ranges::fill(own.budgets, budgets[i]);
    const bool told = layer.plan_.recording.layer || layer.lends_ || layer.watched_.any();
    if (own.above(layer.cache()))
      evictions[i] = capture::evict(own, *layer.arithmetic_, *layer.open_block_, told);
  }
  return evictions;
}

// What one layer holds no more, another may come to hold: at most half as much again as there is stays.
void LayerRun::give_up_room() {
  KvCache& cache = arithmetic_->cache();
  const std::int64_t n_rows = cache.largest_rows();
  if (plan_.eviction.deals() && cache.capacity() > n_rows + n_rows / 2 + 2 * plan_.block_size)
    cache.make_room(n_rows + n_rows / 4 + plan_.block_size);
}

std::vector<LayerEviction> LayerRun::evict_together(std::span<const std::unique_ptr<LayerRun>> layers) {
  std::vector<LayerRun*> open;
  for (const auto& layer : layers)
    if (layer->open_block_ && layer->plan_.eviction.with_all_layers() && layer->lender_ == nullptr &&
        layer->plan_.eviction.policy->evicts(layer->plan_.layer))
      open.push_back(layer.get());
  std::vector<LayerEviction> evictions;
  if (!open.empty()) {
    const WorkTime::Span all(open.front()->all_time_), eviction(open.front()->eviction_time_);
    auto of_open = open.front()->plan_.eviction.deals() ? evict_as_dealt(open) : evict_one_set(open);
    if (!of_open.empty()) evictions.resize(layers.size());
    for (std::size_t i = 0, next = 0; i < evictions.size(); ++i) {
      if (next < open.size() && layers[i].get() == open[next])
        evictions[i] = std::move(of_open[next++]);
      else if (const LayerRun* lender = layers[i]->lender_; lender != nullptr) {
        const auto at = std::ranges::find(layers, lender, [](const auto& layer) { return layer.get(); });
        evictions[i] = follow_lender(evictions[at - layers.begin()], layers[i]->arithmetic_->cache());
      }
    }
  }
  for (std::size_t i = 0; i < evictions.size(); ++i)
    if (layers[i]->open_block_) layers[i]->watched_.note(evictions[i], layers[i]->open_block_->end);
  for (const auto& layer : layers) {
    if (layer->open_block_ && !evictions.empty()) layer->give_up_room();
    layer->open_block_.reset();
  }
  return evictions;
}

}  // namespace keyscope::capture
