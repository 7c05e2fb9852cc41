#include "capture/inference/eviction.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "analysis/policies/selection.hpp"
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

PolicyAttention gather(const PolicyNeeds& needs, const AttentionInput& input, const AttentionOutput& output) {
  PolicyAttention attention;
  const std::int64_t group = input.group_size();
  if (needs.last_row_group || needs.last_row_layer)
    attention.last_row_group = group_mean(output.last_row, group);
  // All heads hold the same rows where a policy ranks by their common mean.
  if (needs.last_row_layer)
    attention.last_row_layer =
        group_mean(attention.last_row_group, static_cast<std::int64_t>(input.heads.size())).front();
  if (needs.window > 0) attention.window_sums = narrowed(group_mean(output.window_sums.front(), group));
  return attention;
}

// One head's rows as float32: the cache's own memory where that is its dtype, a copy elsewhere.
const float* as_floats(const void* rows, at::ScalarType dtype, std::int64_t n, std::vector<float>& copy) {
  if (dtype == at::kFloat) return static_cast<const float*>(rows);
  copy.resize(static_cast<std::size_t>(n));
  kernels::of(dtype).to_float(rows, copy.data(), n);
  return copy.data();
}

// One thread's workplace, used for head after head.
class HeadSelection {
 public:
  HeadSelection(const EvictionRule& rule, const AttentionInput& input, const PolicyAttention& attention)
      : rule_(rule), input_(input), attention_(attention), needs_(rule.policy->needs()) {}

  analysis::Selection select(KvCache& cache, int kv_head) {
    const auto at = static_cast<std::size_t>(kv_head);
    const HeadRows& rows = input_.heads[at];
    const std::int64_t n_rows = rows.n_rows(), head_dim = input_.head_dim();
    const at::ScalarType dtype = input_.queries.scalar_type();
    const float* keys = as_floats(rows.keys, dtype, n_rows * head_dim, keys_);
    const float* values = needs_.values ? as_floats(rows.values, dtype, n_rows * head_dim, values_) : nullptr;
    const PolicyInput policy_input{
        .keys = view_rows(keys, n_rows, head_dim),
        .values = view_rows(values, needs_.values ? n_rows : 0, head_dim),
        .positions = rows.positions,
        .n_new_rows = std::min(input_.n_queries(), n_rows),  // a window may have dropped some
        .layer = rule_.layer,
        .kv_head = kv_head,
        .last_row_group = needs_.last_row_group ? std::span<const float>(attention_.last_row_group[at])
                                                : std::span<const float>(),
        .last_row_layer = attention_.last_row_layer,
        .attention_received = needs_.attention_received
                                  ? std::span<const double>(cache.attention_received(kv_head))
                                  : std::span<const double>(),
        .attention_queries = needs_.attention_received
                                 ? std::span<const std::int32_t>(cache.attention_queries(kv_head))
                                 : std::span<const std::int32_t>(),
        .window_sums = needs_.window > 0 ? std::span<const float>(attention_.window_sums[at])
                                         : std::span<const float>()};
    scores_.assign(static_cast<std::size_t>(n_rows), 0);
    forced_.assign(static_cast<std::size_t>(n_rows), 0);
    rule_.policy->score(policy_input, scores_);
    rule_.policy->force(policy_input, rule_.budgets[at], forced_);
    return analysis::select_rows(scores_, forced_, rule_.budgets[at]);
  }

 private:
  const EvictionRule& rule_;
  const AttentionInput& input_;
  const PolicyAttention& attention_;
  PolicyNeeds needs_;
  std::vector<float> keys_, values_;
  std::vector<double> scores_;
  std::vector<std::uint8_t> forced_;
};

recording::HeadEvictions describe(const analysis::Selection& selection,
                                  std::span<const std::int32_t> positions) {
  recording::HeadEvictions evictions;
  evictions.margin = selection.margin;
  for (const std::int32_t row : selection.evicted)
    evictions.position.push_back(positions[static_cast<std::size_t>(row)]);
  return evictions;
}

}  // namespace

bool EvictionRule::due(const KvCache& cache) const {
  if (policy == nullptr || !policy->evicts(layer)) return false;
  for (int head = 0; head < cache.n_heads(); ++head)
    if (cache.n_rows(head) > budgets[static_cast<std::size_t>(head)]) return true;
  return false;
}

AttentionWants attention_wants(const PolicyNeeds& needs) {
  AttentionWants wants;
  wants.column_sums = needs.attention_received;
  wants.last_row = needs.last_row_group || needs.last_row_layer;
  if (needs.window > 0) wants.windows.push_back(needs.window);
  return wants;
}

std::vector<recording::HeadEvictions> evict(const EvictionRule& rule, const AttentionInput& input,
                                            const AttentionOutput& output, KvCache& cache) {
  std::vector<recording::HeadEvictions> evictions(static_cast<std::size_t>(cache.n_heads()));
  const PolicyAttention attention = gather(rule.policy->needs(), input, output);
  at::parallel_for(0, cache.n_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode inference;  // a property of each thread
    HeadSelection selection(rule, input, attention);
    for (std::int64_t head = begin; head < end; ++head) {
      const auto kv_head = static_cast<int>(head), at = kv_head;
      if (cache.n_rows(kv_head) <= rule.budgets[static_cast<std::size_t>(head)]) continue;
      const auto selected = selection.select(cache, kv_head);
      evictions[static_cast<std::size_t>(at)] = describe(selected, cache.positions(kv_head));
      cache.retain(kv_head, selected.retained);
    }
  });
  return evictions;
}

std::vector<recording::HeadEvictions> drop_past_window(std::int64_t window, std::int64_t next_position,
                                                       KvCache& cache) {
  std::vector<recording::HeadEvictions> dropped(static_cast<std::size_t>(cache.n_heads()));
  for (int head = 0; head < cache.n_heads(); ++head) {
    const auto positions = cache.positions(head);
    const auto past = std::lower_bound(positions.begin(), positions.end(), next_position - window + 1);
    auto& gone = dropped[static_cast<std::size_t>(head)];
    gone.position.assign(positions.begin(), past);
    gone.margin.assign(gone.position.size(), std::numeric_limits<float>::quiet_NaN());
    cache.drop_front(head, past - positions.begin());
  }
  return dropped;
}

}  // namespace keyscope::capture
