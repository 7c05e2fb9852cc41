#include "app/measures/attention_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/measures/placed_keys.hpp"
#include "app/measures/recorded_rules.hpp"

namespace keyscope::measures {
namespace {

using recording::Recording;
using recording::RunInfo;

std::int32_t block_of(const RunInfo& run, std::int64_t position) {
  const auto after = std::ranges::upper_bound(run.block_start, position);
  return static_cast<std::int32_t>(after - run.block_start.begin()) - 1;
}

// Softmax in place over the row's entries that are not NaN, in float64.
void softmax_visible(Eigen::Ref<Eigen::RowVectorXf> row) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const float score : row)
    if (!std::isnan(score)) largest = std::max(largest, static_cast<double>(score));
  for (const float score : row)
    if (!std::isnan(score)) sum += std::exp(score - largest);
  for (float& entry : row)
    if (!std::isnan(entry)) entry = static_cast<float>(std::exp(entry - largest) / sum);
}

// q·k of queries from `first`, block by block, with keys where each block met them.
RowMatrixF products_by_place(const RowMatrixF& queries, const PlacedKeys& keys, std::int64_t n_keys,
                             const RunInfo& run, std::int64_t first) {
  RowMatrixF products(queries.rows(), n_keys);
  for (Eigen::Index row = 0; row < queries.rows();) {
    const std::int32_t block = block_of(run, first + row);
    Eigen::Index end = row + 1;
    while (end < queries.rows() && block_of(run, first + end) == block) ++end;
    products.middleRows(row, end - row) = queries.middleRows(row, end - row) * keys.met_by(block).transpose();
    row = end;
  }
  return products;
}

}  // namespace

void blank_invisible(RowMatrixF& weights, std::int64_t first, const RunInfo& run,
                     std::span<const std::int32_t> evicted_at, const analysis::AttentionRules& rules) {
  for (Eigen::Index r = 0; r < weights.rows(); ++r) {
    const std::int64_t query = first + r, oldest = rules.oldest_visible(query);
    const std::int32_t block = block_of(run, query);
    for (Eigen::Index key = 0; key < weights.cols(); ++key) {
      const bool in_reach =
          key >= oldest && key <= query && key < static_cast<Eigen::Index>(evicted_at.size());
      const std::int32_t evicted = in_reach ? evicted_at[static_cast<std::size_t>(key)] : 0;
      const bool visible = in_reach && (evicted < 0 || evicted >= block);
      if (!visible) weights(r, key) = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

RowMatrixF recompute_attention(const Recording& recording, int run, int layer, int query_head,
                               std::int64_t first, std::int64_t count) {
  const auto info = recording.info();
  if (!info->keys || !info->queries)
    throw FileError(fmt::format(
        "{}: attention was not recorded and cannot be recomputed: queries and keys are needed for "
        "that, and not both were recorded; capture with --record keys,queries,attention",
        info->source));
  const analysis::AttentionRules rules = recorded_rules(*info, layer);
  const RunInfo& about = info->runs[static_cast<std::size_t>(run)];
  const std::int64_t n_keys = first + count;
  const int kv_head = query_head / info->model.group_size();
  const RowMatrixF queries = recording.queries(run, layer, query_head, first, count);
  const RowMatrixF keys = recording.keys(run, layer, kv_head, 0, n_keys);
  RowMatrixF weights =
      about.plan.cache_positions
          ? products_by_place(queries, PlacedKeys(recording, run, layer, kv_head, keys), n_keys, about, first)
          : RowMatrixF(queries * keys.transpose());
  for (float& entry : weights.reshaped<Eigen::RowMajor>()) entry = static_cast<float>(rules.score(entry));
  blank_invisible(weights, first, about, recording.trace(run, layer, kv_head).evicted_at, rules);
  for (Eigen::Index r = 0; r < weights.rows(); ++r) softmax_visible(weights.row(r));
  return weights;
}

bool has_recorded_attention(const recording::RecordingInfo& info, int run) {
  return info.attention && !info.runs[static_cast<std::size_t>(run)].plan.replayed;
}

RowMatrixF visible_attention(const Recording& recording, int run, int layer, int query_head,
                             std::int64_t first, std::int64_t count) {
  const auto info = recording.info();
  if (!has_recorded_attention(*info, run))
    return recompute_attention(recording, run, layer, query_head, first, count);
  const RowMatrixF rows = recording.attention(run, layer, query_head, first, count);
  RowMatrixF weights = rows.leftCols(std::min<Eigen::Index>(rows.cols(), first + count));
  blank_invisible(weights, first, info->runs[static_cast<std::size_t>(run)],
                  recording.trace(run, layer, query_head / info->model.group_size()).evicted_at,
                  recorded_rules(*info, layer));
  return weights;
}

}  // namespace keyscope::measures
