#include "capture/inference/layer_step.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "capture/inference/attention.hpp"
#include "capture/inference/eviction.hpp"
#include "capture/inference/to_floats.hpp"

namespace keyscope::capture {
namespace {

// Adds the block's attention to what the cache's rows have received, and to the record.
void count_attention(const LayerStep& step, const AttentionInput& input, const at::Tensor& log_sum_exp,
                     KvCache& cache, recording::LayerBlock& record) {
  const at::Tensor sums = attention_column_sums(input, log_sum_exp);
  const std::int64_t n_rows = input.keys.size(1), n = input.queries.size(1);
  const auto n_kv_heads = static_cast<int>(input.keys.size(0));
  const at::Tensor last = step.last_prompt_block
                              ? group_mean(attention_rows(input, log_sum_exp, n - 1, 1), n_kv_heads)
                              : at::Tensor();
  for (int head = 0; head < n_kv_heads; ++head) {
    const double* received = sums.const_data_ptr<double>() + head * n_rows;
    const auto total = cache.attention_received(head);
    const auto queries = cache.attention_queries(head);
    recording::HeadAttention attention;
    for (std::int64_t row = 0; row < n_rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      // The block's own row i is seen by its queries i, i + 1, …; older rows by all of them.
      const auto seen_by = static_cast<std::int32_t>(std::min(n, n_rows - row));
      total[at] += received[row];
      queries[at] += seen_by;
      if (step.record_layer && step.prompt) attention.queries.push_back(seen_by);
    }
    if (!step.record_layer || !step.prompt) continue;
    const auto positions = cache.positions(head);
    attention.position.assign(positions.begin(), positions.end());
    attention.received.assign(received, received + n_rows);
    if (last.defined()) attention.last = to_floats(last.select(0, head));
    record.attention.push_back(std::move(attention));
  }
}

// Weights by true position: what is not in the cache any more stays 0.
std::vector<float> scatter_attention(const AttentionInput& input, const at::Tensor& log_sum_exp,
                                     const KvCache& cache, std::int64_t n_positions) {
  const std::int64_t n_heads = input.queries.size(0), n = input.queries.size(1), n_rows = input.keys.size(1);
  const std::int64_t group = n_heads / input.keys.size(0);
  std::vector<float> scattered(static_cast<std::size_t>(n_heads * n * n_positions));
  const at::Tensor rows = attention_rows(input, log_sum_exp, 0, n).contiguous();
  const float* from = rows.const_data_ptr<float>();
  for (std::int64_t head = 0; head < n_heads; ++head) {
    const auto positions = cache.positions(static_cast<int>(head / group));
    for (std::int64_t query = 0; query < n; ++query) {
      float* to = scattered.data() + (head * n + query) * n_positions;
      const float* weights = from + (head * n + query) * n_rows;
      for (std::int64_t row = 0; row < n_rows; ++row)
        to[positions[static_cast<std::size_t>(row)]] = weights[row];
    }
  }
  return scattered;
}

void record_tensors(const LayerStep& step, const Projections& projections, recording::LayerBlock& record) {
  record.layer = step.layer;
  if (step.recording.keys) record.keys = to_floats(projections.keys);
  if (step.recording.queries) record.queries = to_floats(projections.queries);
  if (step.recording.values) record.values = to_floats(projections.values);
}

}  // namespace

LayerResult run_layer(const Transformer& transformer, const LayerStep& step, const at::Tensor& hidden,
                      const RotaryTable& rotary, KvCache& cache) {
  LayerResult result;
  const Projections projections = transformer.project(step.layer, hidden, rotary);
  cache.append(projections.keys, projections.values, step.first_position);
  result.peak_rows = cache.n_rows();
  const AttentionInput input{projections.queries, cache.keys(), cache.values()};
  AttentionOutput attention;
  try {
    attention = attend(input);
  } catch (const InvalidInput& error) {
    throw InvalidInput(
        fmt::format("layer {}, tokens from {}: {}", step.layer, step.first_position, error.what()));
  }
  const analysis::PolicyNeeds needs = step.policy != nullptr ? step.policy->needs() : analysis::PolicyNeeds{};
  if (step.record_layer) record_tensors(step, projections, result.record);
  if ((step.prompt && step.record_layer) || needs.attention_received)
    count_attention(step, input, attention.log_sum_exp, cache, result.record);
  if (step.record_layer && step.recording.attention)
    result.record.attention_rows =
        scatter_attention(input, attention.log_sum_exp, cache, step.first_position + hidden.size(0));
  auto evictions = evict(step, input, attention.log_sum_exp, cache);
  if (step.record_layer) result.record.evictions = std::move(evictions);
  result.hidden = transformer.finish_layer(step.layer, hidden, attention.output);
  return result;
}

}  // namespace keyscope::capture
