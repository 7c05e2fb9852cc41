#include "capture/inference/eviction.hpp"

#include <algorithm>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "analysis/policies/selection.hpp"

namespace keyscope::capture {
namespace {

using analysis::PolicyInput;
using analysis::PolicyNeeds;

// The attention weights that a policy asked for, float32 and contiguous; undefined where it asked for none.
struct PolicyAttention {
  at::Tensor last_row_group;  // (H_kv, n_rows)
  at::Tensor last_row_layer;  // (n_rows)
  at::Tensor window_sums;     // (H_kv, n_rows)
};

PolicyAttention gather_attention(const PolicyNeeds& needs, const AttentionInput& input,
                                 const at::Tensor& log_sum_exp) {
  PolicyAttention attention;
  const auto n_kv_heads = static_cast<int>(input.keys.size(0));
  const std::int64_t n = input.queries.size(1);
  if (needs.last_row_group || needs.last_row_layer) {
    const at::Tensor last = attention_rows(input, log_sum_exp, n - 1, 1);
    if (needs.last_row_group) attention.last_row_group = group_mean(last, n_kv_heads);
    if (needs.last_row_layer) attention.last_row_layer = last.mean(0).squeeze(0).contiguous();
  }
  if (needs.window > 0) {
    const std::int64_t window = std::min<std::int64_t>(needs.window, n);
    attention.window_sums = group_mean(attention_rows(input, log_sum_exp, n - window, window), n_kv_heads);
  }
  return attention;
}

std::span<const float> row_of(const at::Tensor& tensor, std::int64_t row, std::int64_t n_rows) {
  if (!tensor.defined()) return {};
  return {tensor.const_data_ptr<float>() + row * n_rows, static_cast<std::size_t>(n_rows)};
}

// One head's rows as float32: the cache's own memory where that is its dtype, a copy elsewhere.
at::Tensor rows_as_float(const at::Tensor& tensor, int kv_head) {
  return tensor.select(0, kv_head).to(at::kFloat).contiguous();
}

analysis::Selection select_for_head(const LayerStep& step, const AttentionInput& input,
                                    const PolicyAttention& attention, KvCache& cache, int kv_head) {
  const PolicyNeeds needs = step.policy->needs();
  const std::int64_t n_rows = cache.n_rows(), head_dim = input.keys.size(2);
  const at::Tensor keys = rows_as_float(input.keys, kv_head);
  const at::Tensor values = needs.values ? rows_as_float(input.values, kv_head) : at::Tensor();
  const PolicyInput policy_input{
      .keys = view_rows(keys.const_data_ptr<float>(), n_rows, head_dim),
      .values = view_rows(needs.values ? values.const_data_ptr<float>() : nullptr, needs.values ? n_rows : 0,
                          head_dim),
      .positions = cache.positions(kv_head),
      .n_new_rows = input.queries.size(1),
      .layer = step.layer,
      .kv_head = kv_head,
      .last_row_group = row_of(attention.last_row_group, kv_head, n_rows),
      .last_row_layer = row_of(attention.last_row_layer, 0, n_rows),
      .attention_received = needs.attention_received
                                ? std::span<const double>(cache.attention_received(kv_head))
                                : std::span<const double>(),
      .attention_queries = needs.attention_received
                               ? std::span<const std::int32_t>(cache.attention_queries(kv_head))
                               : std::span<const std::int32_t>(),
      .window_sums = row_of(attention.window_sums, kv_head, n_rows)};
  std::vector<double> scores(static_cast<std::size_t>(n_rows));
  std::vector<std::uint8_t> forced(static_cast<std::size_t>(n_rows));
  step.policy->score(policy_input, scores);
  step.policy->force(policy_input, step.budget, forced);
  return analysis::select_rows(scores, forced, step.budget);
}

recording::HeadEvictions describe(const analysis::Selection& selection,
                                  std::span<const std::int32_t> positions) {
  recording::HeadEvictions evictions;
  evictions.margin = selection.margin;
  for (const std::int32_t row : selection.evicted)
    evictions.position.push_back(positions[static_cast<std::size_t>(row)]);
  return evictions;
}

}  // namespace

at::Tensor group_mean(const at::Tensor& weights, int n_kv_heads) {
  return weights.view({n_kv_heads, -1, weights.size(1), weights.size(2)}).mean(1).sum(1).contiguous();
}

std::vector<recording::HeadEvictions> evict(const LayerStep& step, const AttentionInput& input,
                                            const at::Tensor& log_sum_exp, KvCache& cache) {
  const auto n_kv_heads = static_cast<int>(input.keys.size(0));
  std::vector<recording::HeadEvictions> evictions(static_cast<std::size_t>(n_kv_heads));
  const bool due = step.policy != nullptr && cache.n_rows() > step.budget && step.policy->evicts(step.layer);
  if (!due) return evictions;
  const PolicyAttention attention = gather_attention(step.policy->needs(), input, log_sum_exp);
  at::parallel_for(0, n_kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode inference;  // a property of each thread
    for (std::int64_t head = begin; head < end; ++head) {
      const auto kv_head = static_cast<int>(head);
      const auto selection = select_for_head(step, input, attention, cache, kv_head);
      evictions[static_cast<std::size_t>(head)] = describe(selection, cache.positions(kv_head));
      cache.compact(kv_head, selection.retained);
    }
  });
  cache.set_rows(step.budget);
  return evictions;
}

}  // namespace keyscope::capture
