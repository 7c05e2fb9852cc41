#include "capture/inference/eviction.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/score_parts.hpp"
#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {
namespace {

using analysis::PolicyInput;
using analysis::PolicyNeeds;

PerRow<float> narrowed(const PerRow<double>& statistic) {
  PerRow<float> rows;
  for (const auto& head : statistic) rows.emplace_back(head.begin(), head.end());
  return rows;
}

// Mean over the query heads that share each of n_kv_heads.
template <typename T>
PerRow<T> kv_head_mean(const PerRow<T>& statistic, int n_kv_heads) {
  return group_mean(statistic, static_cast<std::int64_t>(statistic.size()) / n_kv_heads);
}

// What a policy looks at in a layer.
struct PolicyView {
  const PolicyNeeds needs;
  KvCache& cache;
  const BlockStatistics& block;
  PolicyAttention attention;
  HostRows keys, values;  // values only where they are needed
  std::span<const analysis::QueryMoments> moments;
};

PolicyView view_layer(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block) {
  const PolicyNeeds needs = rule.policy->needs();
  return {needs,
          layer.cache(),
          block,
          policy_attention(needs, layer.cache().n_heads(), block),
          layer.cached_rows(RowPart::kKeys),
          needs.values ? layer.cached_rows(RowPart::kValues) : HostRows{at::kFloat, 0},
          layer.moments()};
}

// Rows as float32, where the policy likes to have them.
class FloatRows {
 public:
  explicit FloatRows(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  // One head's: where they lie if that is their dtype, else a copy, valid until the next one.
  const float* of(const HostRows& rows, std::size_t head, std::int64_t n_rows) {
    if (rows.dtype == at::kFloat) return static_cast<const float*>(rows.heads[head]);
    const std::int64_t n = n_rows * rows.head_dim;
    float* copy = reserve(n);
    kernels::of(rows.dtype).to_float(rows.heads[head], copy, n);
    return copy;
  }

 private:
  float* reserve(std::int64_t n) {
    if (memory_ == nullptr) {
      own_.resize(n);
      return own_.data();
    }
    if (n > n_shared_) shared_ = memory_->take((n_shared_ = n) * std::int64_t{sizeof(float)});
    return reinterpret_cast<float*>(shared_.get());
  }

  std::shared_ptr<SharedMemory> memory_;
  std::vector<float> own_;
  std::shared_ptr<std::byte> shared_;
  std::int64_t n_shared_ = 0;
};

// The last `window` queries of query heads first, …, first + n - 1, one head after the other.
RowMatrixD last_queries(const at::Tensor& queries, std::int64_t first, std::int64_t n, std::int64_t window) {
  const c10::InferenceMode inference;  // which is each thread's own
  const std::int64_t w = std::min(window, queries.size(1));
  const at::Tensor rows =
      queries.narrow(0, first, n).narrow(1, queries.size(1) - w, w).to(at::kCPU, at::kDouble).contiguous();
  return Eigen::Map<const RowMatrixD>(rows.const_data_ptr<double>(), n * w, queries.size(2));
}

// One thread's workplace, used for head after head.
class HeadRanking {
 public:
  HeadRanking(const EvictionRule& rule, const PolicyView& view)
      : rule_(rule), view_(view), keys_(rule.policy->row_memory()), values_(rule.policy->row_memory()) {}

  void rank(int kv_head, std::vector<double>& scores, std::vector<std::uint8_t>& forced) {
    const PolicyNeeds& needs = view_.needs;
    const std::int64_t n_rows = view_.cache.n_rows(kv_head), head_dim = view_.keys.head_dim;
    const float* keys = keys_.of(view_.keys, kv_head, n_rows);
    const float* values = needs.values ? values_.of(view_.values, kv_head, n_rows) : nullptr;
    PolicyInput policy_input{
        .keys = view_rows(keys, n_rows, head_dim),
        .values = view_rows(values, needs.values ? n_rows : 0, head_dim),
        .positions = view_.cache.positions(kv_head),
        .n_new_rows = std::min(view_.block.n_queries, n_rows),  // a window may have dropped some
        .budget = rule_.budgets[kv_head],
        .layer = rule_.layer,
        .kv_head = kv_head,
        .last_row_group = needs.last_row_group
                              ? std::span<const float>(view_.attention.last_row_group[kv_head])
                              : std::span<const float>(),
        .last_row_layer = view_.attention.last_row_layer,
        .attention_received = needs.attention_received
                                  ? std::span<const double>(view_.cache.attention_received(kv_head))
                                  : std::span<const double>(),
        .attention_queries = needs.attention_received
                                 ? std::span<const std::int32_t>(view_.cache.attention_queries(kv_head))
                                 : std::span<const std::int32_t>(),
        .window_sums = needs.window > 0 ? std::span<const float>(view_.attention.window_sums[kv_head])
                                        : std::span<const float>()};
    add_queries(kv_head, policy_input);
    scores.assign(n_rows, 0);
    forced.assign(n_rows, 0);
    rule_.policy->score(policy_input, scores);
    rule_.policy->force(policy_input, rule_.budgets[kv_head], forced);
  }

  analysis::Selection select(int kv_head) {
    rank(kv_head, scores_, forced_);
    return analysis::select_rows(scores_, forced_, rule_.budgets[kv_head]);
  }

 private:
  // Of the group's query heads what the policy asks for.
  void add_queries(int kv_head, PolicyInput& input) {
    const PolicyNeeds& needs = view_.needs;
    input.rotation = view_.block.rotation;
    if (!needs.queries()) return;
    const at::Tensor& queries = view_.block.queries;
    const auto n_query_heads = queries.defined() ? queries.size(0) : std::ssize(view_.moments);
    const std::int64_t group = n_query_heads / view_.cache.n_heads(), first = group * kv_head;
    input.group_size = static_cast<int>(group);
    if (needs.query_moments) input.query_moments = view_.moments.subspan(first, group);
    const auto queries_of = [&](int window) { return last_queries(queries, first, group, window); };
    if (needs.window_queries > 0) {
      window_queries_ = queries_of(needs.window_queries);
      input.window_queries = &window_queries_;
    }
    if (needs.window_weights > 0) {
      window_weights_ = analysis::weights_on_rows(queries_of(needs.window_weights), view_.block.end,
                                                  std::span(view_.block.rules).subspan(first, group),
                                                  input.keys, input.positions);
      input.window_weights = &window_weights_;
    }
  }

  const EvictionRule& rule_;
  const PolicyView& view_;
  FloatRows keys_, values_;
  RowMatrixD window_queries_, window_weights_;
  std::vector<double> scores_;
  std::vector<std::uint8_t> forced_;
};

// Of each of the heads, every thread with a workplace of its own.
template <typename Do>
void for_each_head(const EvictionRule& rule, const PolicyView& view, std::int64_t n_heads, const Do& work) {
  at::parallel_for(0, n_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    HeadRanking ranking(rule, view);
    for (std::int64_t i = begin; i < end; ++i) work(ranking, i);
  });
}

std::vector<analysis::Selection> select(const EvictionRule& rule, LayerArithmetic& layer,
                                        const BlockStatistics& block, const std::vector<int>& heads) {
  const analysis::Slots& slots = rule.policy->slots();
  if (!slots.neutral()) {
    const LayerRanks ranks = rank_layer(rule, layer, block);
    return analysis::select_layer(slots, ranks.rows(layer.cache()), rule.cut());
  }
  const PolicyView view = view_layer(rule, layer, block);
  std::vector<analysis::Selection> selections(heads.size());
  for_each_head(rule, view, std::ssize(heads),
                [&](HeadRanking& ranking, std::int64_t i) { selections[i] = ranking.select(heads[i]); });
  return selections;
}

// Rows first, …, n - 1.
std::vector<std::int32_t> rows_from(std::int64_t first, std::int64_t n) {
  std::vector<std::int32_t> rows(n - first);
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first));
  return rows;
}

recording::HeadEvictions describe(const analysis::Selection& selection,
                                  std::span<const std::int32_t> positions) {
  recording::HeadEvictions evictions;
  evictions.margin = selection.margin;
  for (const std::int32_t row : selection.evicted) evictions.position.push_back(positions[row]);
  return evictions;
}

}  // namespace

bool EvictionRule::due(const KvCache& cache, std::int64_t n_read) const {
  if (policy == nullptr || !policy->evicts(layer)) return false;
  if (deals()) return n_read > policy->slots().most_rows(nominal);  // what the others hold may decide so
  return above(cache);
}

bool EvictionRule::above(const KvCache& cache) const {
  std::vector<std::int64_t> n_rows;
  for (int head = 0; head < cache.n_heads(); ++head) n_rows.push_back(cache.n_rows(head));
  return policy->slots().due(n_rows, budgets);
}

bool EvictionRule::with_all_layers() const { return policy != nullptr && policy->slots().all_layers(); }

bool EvictionRule::deals() const { return policy != nullptr && policy->slots().deals_by_block(); }

std::int64_t looked_at_queries(const analysis::Policy& policy) {
  const PolicyNeeds needs = policy.needs();
  return std::max({std::int64_t{needs.window_queries}, std::int64_t{needs.window_weights},
                   policy.slots().deals_by_block() ? analysis::kCakeWindow : 0});
}

AttentionWants attention_wants(const PolicyNeeds& needs) {
  AttentionWants wants;
  add_wants(wants, needs);
  return wants;
}

void add_wants(AttentionWants& wants, const PolicyNeeds& needs) {
  wants.column_sums |= needs.attention_received;
  wants.last_row |= needs.last_row_group || needs.last_row_layer;
  if (needs.window > 0 && std::ranges::find(wants.windows, needs.window) == wants.windows.end())
    wants.windows.push_back(needs.window);
}

PolicyAttention policy_attention(const PolicyNeeds& needs, int n_kv_heads, const BlockStatistics& block) {
  PolicyAttention attention;
  if (needs.last_row_group || needs.last_row_layer)
    attention.last_row_group = kv_head_mean(block.last_row, n_kv_heads);
  // All heads hold the same rows where a policy ranks by their common mean.
  if (needs.last_row_layer)
    attention.last_row_layer = group_mean(attention.last_row_group, n_kv_heads).front();
  if (needs.window > 0)
    attention.window_sums = narrowed(kv_head_mean(block.window_sums.at(needs.window), n_kv_heads));
  return attention;
}

std::vector<analysis::RankedRows> LayerRanks::rows(const KvCache& cache) const {
  std::vector<analysis::RankedRows> heads;
  for (int head = 0; head < cache.n_heads(); ++head) {
    // Rows that were shared with a policy that weighs values come with norms as far as that one needed them.
    const auto norms = cache.value_norms(head);
    const bool all = norms.size() == cache.positions(head).size();
    heads.push_back(
        {scores[head], forced[head], cache.positions(head), all ? norms : std::span<const double>()});
  }
  return heads;
}

LayerRanks rank_layer(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block) {
  if (auto ranks = layer.rank(rule, block)) return std::move(*ranks);
  const PolicyView view = view_layer(rule, layer, block);
  const auto n_heads = static_cast<std::size_t>(layer.cache().n_heads());
  LayerRanks ranks{std::vector<std::vector<double>>(n_heads),
                   std::vector<std::vector<std::uint8_t>>(n_heads)};
  for_each_head(rule, view, std::ssize(ranks.scores), [&](HeadRanking& ranking, std::int64_t head) {
    ranking.rank(static_cast<int>(head), ranks.scores[head], ranks.forced[head]);
  });
  return ranks;
}

analysis::LayerPreference layer_preference(LayerArithmetic& layer, const BlockStatistics& block) {
  if (const auto there = layer.preference(block)) return *there;
  const KvCache& cache = layer.cache();
  const HostRows keys = layer.cached_rows(RowPart::kKeys);
  const std::int64_t group = block.queries.size(0) / cache.n_heads();
  std::vector<analysis::LayerPreference> heads(cache.n_heads());
  at::parallel_for(0, cache.n_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
    FloatRows floats(nullptr);
    for (auto head = static_cast<int>(begin); head < end; ++head) {
      const std::int64_t n_rows = cache.n_rows(head), first = head * group;
      const RowMatrixD weights = analysis::weights_on_rows(
          last_queries(block.queries, first, group, analysis::kCakeWindow), block.end,
          std::span(block.rules).subspan(first, group),
          view_rows(floats.of(keys, head, n_rows), n_rows, keys.head_dim), cache.positions(head));
      const Eigen::Index w = weights.rows() / group;
      for (std::int64_t query = 0; query < group; ++query) heads[head].add(weights.middleRows(query * w, w));
    }
  });
  analysis::LayerPreference all;
  for (const analysis::LayerPreference& head : heads) all.add(head);
  return all;
}

// Not one by one: every head of the layer, if any is cut.
std::vector<int> heads_to_evict(const EvictionRule& rule, const KvCache& cache) {
  std::vector<int> heads;
  const bool all = !rule.policy->slots().neutral();
  for (int head = 0; head < cache.n_heads(); ++head)
    if (all || cache.n_rows(head) > rule.budgets[head]) heads.push_back(head);
  return heads;
}

LayerEviction retain(KvCache& cache, std::vector<analysis::Selection> selections) {
  LayerEviction eviction = eviction_of(positions_of(cache), std::move(selections));
  cache.retain(eviction.retained);
  return eviction;
}

RowPositions positions_of(const KvCache& cache) {
  RowPositions positions;
  for (int head = 0; head < cache.n_heads(); ++head) positions.push_back(cache.positions(head));
  return positions;
}

LayerEviction eviction_of(const RowPositions& positions, const std::vector<int>& heads,
                          std::vector<analysis::Selection> selections) {
  LayerEviction eviction{std::vector<recording::HeadEvictions>(positions.size()),
                         RetainedRows(positions.size())};
  for (std::size_t i = 0; i < heads.size(); ++i) {
    eviction.heads[heads[i]] = describe(selections[i], positions[heads[i]]);
    eviction.retained[heads[i]] = std::move(selections[i].retained);
  }
  for (int head = 0; head < std::ssize(positions); ++head)
    if (!std::ranges::binary_search(heads, head))
      eviction.retained[head] = rows_from(0, std::ssize(positions[head]));
  return eviction;
}

LayerEviction eviction_of(const RowPositions& positions, std::vector<analysis::Selection> selections) {
  std::vector<int> heads(positions.size());
  std::iota(heads.begin(), heads.end(), 0);
  return eviction_of(positions, heads, std::move(selections));
}

LayerEviction evict(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block,
                    bool told) {
  if (auto done = layer.evict(rule, block, told)) return std::move(*done);
  const std::vector<int> heads = heads_to_evict(rule, layer.cache());
  LayerEviction eviction = eviction_of(positions_of(layer.cache()), heads, select(rule, layer, block, heads));
  layer.cache().retain(eviction.retained);
  return eviction;
}

LayerEviction follow_lender(const LayerEviction& eviction, KvCache& cache) {
  if (!eviction.retained.empty()) cache.retain(eviction.retained);
  return eviction;
}

std::optional<LayerEviction> LayerArithmetic::evict(const EvictionRule& /*rule*/,
                                                    const BlockStatistics& /*block*/, bool /*told*/) {
  return std::nullopt;
}

LayerArithmetic::LateSelections LayerArithmetic::evict_alike(const EvictionRule& /*rule*/,
                                                             const BlockStatistics& /*block*/) {
  return nullptr;
}

std::optional<analysis::LayerPreference> LayerArithmetic::preference(const BlockStatistics& /*block*/) {
  return std::nullopt;
}

std::optional<LayerRanks> LayerArithmetic::rank(const EvictionRule& /*rule*/,
                                                const BlockStatistics& /*block*/) {
  return std::nullopt;
}

std::vector<recording::HeadEvictions> drop_past_window(std::int64_t window, std::int64_t next_position,
                                                       KvCache& cache) {
  std::vector<recording::HeadEvictions> dropped(cache.n_heads());
  RetainedRows retained(dropped.size());
  bool any = false;
  for (int head = 0; head < cache.n_heads(); ++head) {
    const auto positions = cache.positions(head);
    const auto past = std::lower_bound(positions.begin(), positions.end(), next_position - window + 1);
    auto& gone = dropped[head];
    gone.position.assign(positions.begin(), past);
    gone.margin.assign(gone.position.size(), std::numeric_limits<float>::quiet_NaN());
    retained[head] = rows_from(past - positions.begin(), cache.n_rows(head));
    any = any || !gone.position.empty();
  }
  if (any) cache.retain(retained);
  return dropped;
}

}  // namespace keyscope::capture
