#include "capture/inference/eviction.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "analysis/policies/row_selection.hpp"
#include "capture/inference/tensor_policy.hpp"
#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {
namespace {

using analysis::PolicyInput;
using analysis::PolicyNeeds;

// The attention weights that a policy asked for; empty where it asked for none.
struct PolicyAttention {
  PerRow<float> last_row_group;       // [n_kv_heads][n_rows]
  std::vector<float> last_row_layer;  // (n_rows)
  PerRow<float> window_sums;          // [n_kv_heads][n_rows]
};

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

PolicyAttention gather(const PolicyNeeds& needs, int n_kv_heads, const BlockStatistics& block) {
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

// What a policy looks at in a layer, on the host.
struct PolicyView {
  const PolicyNeeds needs;
  KvCache& cache;
  std::int64_t n_queries;
  PolicyAttention attention;
  HostRows keys, values;  // values only where they are needed
};

PolicyView view_layer(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block) {
  const PolicyNeeds needs = rule.policy->needs();
  return {needs,
          layer.cache(),
          block.n_queries,
          gather(needs, layer.cache().n_heads(), block),
          layer.cached_rows(RowPart::kKeys),
          needs.values ? layer.cached_rows(RowPart::kValues) : HostRows{at::kFloat, 0}};
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

// One thread's workplace, used for head after head.
class HeadSelection {
 public:
  HeadSelection(const EvictionRule& rule, const PolicyView& view)
      : rule_(rule), view_(view), keys_(rule.policy->row_memory()), values_(rule.policy->row_memory()) {}

  analysis::Selection select(int kv_head) {
    const PolicyNeeds& needs = view_.needs;
    const std::int64_t n_rows = view_.cache.n_rows(kv_head), head_dim = view_.keys.head_dim;
    const float* keys = keys_.of(view_.keys, kv_head, n_rows);
    const float* values = needs.values ? values_.of(view_.values, kv_head, n_rows) : nullptr;
    const PolicyInput policy_input{
        .keys = view_rows(keys, n_rows, head_dim),
        .values = view_rows(values, needs.values ? n_rows : 0, head_dim),
        .positions = view_.cache.positions(kv_head),
        .n_new_rows = std::min(view_.n_queries, n_rows),  // a window may have dropped some
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
    scores_.assign(n_rows, 0);
    forced_.assign(n_rows, 0);
    rule_.policy->score(policy_input, scores_);
    rule_.policy->force(policy_input, rule_.budgets[kv_head], forced_);
    return analysis::select_rows(scores_, forced_, rule_.budgets[kv_head]);
  }

 private:
  const EvictionRule& rule_;
  const PolicyView& view_;
  FloatRows keys_, values_;
  std::vector<double> scores_;
  std::vector<std::uint8_t> forced_;
};

std::vector<analysis::Selection> select_on_host(const EvictionRule& rule, LayerArithmetic& layer,
                                                const BlockStatistics& block, const std::vector<int>& heads) {
  const PolicyView view = view_layer(rule, layer, block);
  std::vector<analysis::Selection> selections(heads.size());
  at::parallel_for(0, std::ssize(heads), 1, [&](std::int64_t begin, std::int64_t end) {
    HeadSelection selection(rule, view);
    for (std::int64_t i = begin; i < end; ++i) selections[i] = selection.select(heads[i]);
  });
  return selections;
}

// What a policy looks at in a layer whose rows lie in tensors, wherever that is.
class TensorSelection {
 public:
  TensorSelection(const EvictionRule& rule, const TensorPolicy& policy, LayerArithmetic& layer,
                  const BlockStatistics& block)
      : rule_(rule),
        policy_(policy),
        needs_(rule.policy->needs()),
        cache_(layer.cache()),
        attention_(gather(needs_, cache_.n_heads(), block)),
        keys_(layer.cached_tensor(RowPart::kKeys)),
        values_(needs_.values ? layer.cached_tensor(RowPart::kValues) : at::Tensor()) {}

  // Heads first, …, first + n - 1, which have as many rows and the same budget.
  std::vector<analysis::Selection> select(int first, int n) const {
    const std::int64_t n_rows = cache_.n_rows(first);
    const auto rows_of = [&](const at::Tensor& all) { return all.narrow(0, first, n).narrow(1, 0, n_rows); };
    TensorPolicyInput input{.budget = rule_.budgets[first], .layer = rule_.layer, .first_head = first};
    input.keys = rows_of(keys_);
    if (needs_.values) input.values = rows_of(values_);
    const auto of_heads = [&]<typename T>(T, const auto& entries) {
      return bring<T>(n, n_rows, [&](int i) { return entries(first + i); });
    };
    if (policy_.reads_positions())
      input.positions = of_heads(std::int64_t{}, [&](int head) { return cache_.positions(head); });
    if (needs_.last_row_group)
      input.last_row_group =
          of_heads(float{}, [&](int head) { return std::span(attention_.last_row_group[head]); });
    if (needs_.last_row_layer)
      input.last_row_layer =
          bring<float>(1, n_rows, [&](int) { return std::span(attention_.last_row_layer); })[0];
    if (needs_.attention_received) {
      input.attention_received =
          of_heads(double{}, [&](int head) { return cache_.attention_received(head); });
      input.attention_queries =
          of_heads(std::int64_t{}, [&](int head) { return cache_.attention_queries(head); });
    }
    if (needs_.window > 0)
      input.window_sums =
          of_heads(float{}, [&](int head) { return std::span(attention_.window_sums[head]); });
    return select_rows(policy_.score(input), policy_.forced(input), input.budget);
  }

 private:
  // What is known on the host, to where the rows lie: (n, n_rows).
  template <typename T, typename Entries>
  at::Tensor bring(int n, std::int64_t n_rows, const Entries& entries) const {
    const at::Tensor rows =
        at::empty({n, n_rows}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
    for (int i = 0; i < n; ++i) std::ranges::copy(entries(i), rows.mutable_data_ptr<T>() + i * n_rows);
    return rows.to(keys_.device());
  }

  const EvictionRule& rule_;
  const TensorPolicy& policy_;
  const PolicyNeeds needs_;
  KvCache& cache_;
  PolicyAttention attention_;
  at::Tensor keys_, values_;
};

// Heads that are alike, next to each other, in one go.
std::vector<analysis::Selection> select_on_tensors(const TensorSelection& selection, const EvictionRule& rule,
                                                   const KvCache& cache, const std::vector<int>& heads) {
  const auto alike = [&](int a, int b) {
    return b == a + 1 && cache.n_rows(a) == cache.n_rows(b) && rule.budgets[a] == rule.budgets[b];
  };
  std::vector<analysis::Selection> selections;
  for (std::size_t first = 0; first < heads.size();) {
    std::size_t end = first + 1;
    while (end < heads.size() && alike(heads[end - 1], heads[end])) ++end;
    auto of_heads = selection.select(heads[first], static_cast<int>(end - first));
    std::ranges::move(of_heads, std::back_inserter(selections));
    first = end;
  }
  return selections;
}

// Of each of these heads; where the rows lie if the policy can look at them there.
std::vector<analysis::Selection> select(const EvictionRule& rule, LayerArithmetic& layer,
                                        const BlockStatistics& block, const std::vector<int>& heads) {
  const auto policy = layer.cached_tensor(RowPart::kKeys).defined() ? tensor_policy(rule.policy->spec())
                                                                    : std::unique_ptr<const TensorPolicy>();
  if (policy == nullptr) return select_on_host(rule, layer, block, heads);
  return select_on_tensors({rule, *policy, layer, block}, rule, layer.cache(), heads);
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

bool EvictionRule::due(const KvCache& cache) const {
  if (policy == nullptr || !policy->evicts(layer)) return false;
  for (int head = 0; head < cache.n_heads(); ++head)
    if (cache.n_rows(head) > budgets[head]) return true;
  return false;
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

LayerEviction evict(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block) {
  KvCache& cache = layer.cache();
  const auto n_heads = static_cast<std::size_t>(cache.n_heads());
  LayerEviction eviction{std::vector<recording::HeadEvictions>(n_heads), RetainedRows(n_heads)};
  std::vector<int> heads;  // that hold more than they may
  for (int head = 0; head < cache.n_heads(); ++head) {
    if (cache.n_rows(head) > rule.budgets[head])
      heads.push_back(head);
    else
      eviction.retained[head] = rows_from(0, cache.n_rows(head));
  }
  auto selections = select(rule, layer, block, heads);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    eviction.heads[heads[i]] = describe(selections[i], cache.positions(heads[i]));
    eviction.retained[heads[i]] = std::move(selections[i].retained);
  }
  cache.retain(eviction.retained);
  return eviction;
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
