#include "capture/recording/live_layer.hpp"

#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::recording {
namespace {

void append_rows(HeadRows& heads, const std::vector<float>& block, std::size_t n_values) {
  if (block.empty()) return;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto first = block.begin() + static_cast<std::ptrdiff_t>(h * n_values);
    heads[h].insert(heads[h].end(), first, first + static_cast<std::ptrdiff_t>(n_values));
  }
}

void grow(HeadTrace& trace, std::size_t n_seen) {
  trace.evicted_at.resize(n_seen, -1);
  trace.evicted_margin.resize(n_seen, std::numeric_limits<float>::quiet_NaN());
  trace.attention_received.resize(n_seen, 0);
  trace.attention_queries.resize(n_seen, 0);
  trace.attention_last.resize(n_seen, 0);
}

void add_attention(HeadTrace& trace, const HeadAttention& head) {
  for (std::size_t i = 0; i < head.position.size(); ++i) {
    const auto at = static_cast<std::size_t>(head.position[i]);
    trace.attention_received[at] += head.received[i];
    trace.attention_queries[at] += head.queries[i];
    if (!head.last.empty()) trace.attention_last[at] = head.last[i];
  }
}

void add_evictions(HeadTrace& trace, const HeadEvictions& head, std::int32_t block) {
  for (std::size_t i = 0; i < head.position.size(); ++i) {
    const auto at = static_cast<std::size_t>(head.position[i]);
    if (trace.evicted_at[at] >= 0)
      throw InvalidInput(fmt::format("recording: position {} was evicted twice", head.position[i]));
    trace.evicted_at[at] = block;
    trace.evicted_margin[at] = head.margin[i];
  }
}

void add_statistics(AttentionStatistics& statistics, const LayerBlock& from, std::int64_t start,
                    std::int64_t n_new) {
  if (!from.entropy.empty())
    statistics.entropy.middleCols(start, n_new) =
        view_rows(from.entropy.data(), statistics.entropy.rows(), n_new);
  if (from.attention_window.empty()) return;
  const Eigen::Index n_kv_heads = statistics.window.rows();
  const auto n_prompt = static_cast<Eigen::Index>(from.attention_window.size()) / n_kv_heads;
  statistics.window.leftCols(n_prompt) = view_rows(from.attention_window.data(), n_kv_heads, n_prompt);
  statistics.gini = from.gini;
  statistics.top_share = from.top_share;
}

}  // namespace

LiveLayer::LiveLayer(const RecordPlan& plan, const RunPlan& run)
    : keys(static_cast<std::size_t>(plan.n_row_kv_heads())),
      queries(static_cast<std::size_t>(plan.n_row_heads())),
      values(keys.size()),
      traces(static_cast<std::size_t>(plan.model.n_kv_heads)) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  statistics.entropy =
      RowMatrixF::Constant(plan.model.n_heads, plan.n_prompt(), std::numeric_limits<float>::quiet_NaN());
  statistics.window = RowMatrixF::Zero(plan.model.n_kv_heads, run.max_tokens(plan.n_prompt()));
  statistics.gini.assign(static_cast<std::size_t>(plan.model.n_heads), unknown);
  statistics.top_share.assign(statistics.gini.size(), unknown);
}

void LiveLayer::add(const BlockRecord& record, const LayerBlock& block) {
  append_rows(keys, block.keys, block.keys.size() / keys.size());
  append_rows(queries, block.queries, block.queries.size() / queries.size());
  append_rows(values, block.values, block.values.size() / values.size());
  if (!block.attention_rows.empty()) attention_rows.push_back(block.attention_rows);
  for (HeadTrace& trace : traces) grow(trace, static_cast<std::size_t>(record.start + record.n_new));
  if (record.prompt)
    for (std::size_t h = 0; h < block.attention.size(); ++h) add_attention(traces[h], block.attention[h]);
  add_statistics(statistics, block, record.start, record.n_new);
  for (std::size_t h = 0; h < block.evictions.size(); ++h)
    add_evictions(traces[h], block.evictions[h], record.block);
}

}  // namespace keyscope::recording
