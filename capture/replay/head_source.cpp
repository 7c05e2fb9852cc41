#include "capture/replay/head_source.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/finite_rows.hpp"

namespace keyscope::replay {
namespace {

using analysis::PolicyNeeds;
using recording::Recording;
using recording::RecordingInfo;

void check_finite(const RowMatrixF& rows, std::string_view what, const RecordingInfo& info, int run,
                  int layer, int kv_head) {
  try {
    analysis::require_finite(rows, what);
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}, layer {}, KV head {}: {}", info.source,
                                info.runs[static_cast<std::size_t>(run)].plan.name, layer, kv_head,
                                error.what()));
  }
}

template <typename T>
std::vector<T> first(std::vector<T> values, std::int64_t n) {
  values.resize(static_cast<std::size_t>(n));
  return values;
}

std::vector<float> as_float(const Eigen::VectorXd& values) {
  std::vector<float> floats(static_cast<std::size_t>(values.size()));
  std::ranges::transform(values, floats.begin(), [](double value) { return static_cast<float>(value); });
  return floats;
}

// Sums of the weights that the last prompt queries gave, a group's query heads averaged: as recorded, where
// it was for so many queries, else from the weights themselves.
std::vector<float> window_sums(const Recording& recording, const RecordingInfo& info, std::int64_t window,
                               int run, int layer, int kv_head) {
  if (window == recording::kRecordedWindow) {
    const RowMatrixF recorded = recording.statistics(run, layer).window;
    if (recorded.rows() > kv_head) {
      const float* row = recorded.row(kv_head).data();
      return {row, row + info.n_prompt()};
    }
  }
  const std::int64_t n_prompt = info.n_prompt(), n_queries = std::min(window, n_prompt);
  const int group_size = info.model.group_size();
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(n_prompt);
  for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
    const RowMatrixF weights = recording.attention(run, layer, head, n_prompt - n_queries, n_queries);
    check_finite(weights, "attention", info, run, layer, kv_head);
    sums += weights.leftCols(n_prompt).cast<double>().colwise().sum().transpose();
  }
  return as_float(sums / group_size);
}

}  // namespace

std::string oracle_statistic(const PolicyNeeds& needs) {
  if (needs.last_row_group || needs.last_row_layer) return "attention_last";
  if (needs.attention_received) return "attention_received";
  if (needs.window == recording::kRecordedWindow) return "attention_window";
  return needs.window > 0 ? "attention" : "";
}

std::vector<float> read_last_row_layer(const Recording& recording, const PolicyNeeds& needs, int run,
                                       int layer) {
  if (!needs.last_row_layer) return {};
  const auto info = recording.info();
  // All groups are of one size, so that the mean of their means is the mean over all query heads.
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(info->n_prompt());
  for (int head = 0; head < info->model.n_kv_heads; ++head) {
    const auto last = recording.trace(run, layer, head).attention_last;
    for (Eigen::Index i = 0; i < sum.size(); ++i) sum[i] += last[static_cast<std::size_t>(i)];
  }
  return as_float(sum / info->model.n_kv_heads);
}

HeadSource read_head_source(const Recording& recording, const PolicyNeeds& needs, int run, int layer,
                            int kv_head) {
  const auto info = recording.info();
  const std::int64_t n_prompt = info->n_prompt();
  HeadSource source;
  source.keys = recording.keys(run, layer, kv_head, 0, n_prompt);
  check_finite(source.keys, "keys", *info, run, layer, kv_head);
  if (needs.values) {
    source.values = recording.values(run, layer, kv_head, 0, n_prompt);
    check_finite(source.values, "values", *info, run, layer, kv_head);
  }
  if (needs.last_row_group || needs.attention_received) {
    recording::HeadTrace trace = recording.trace(run, layer, kv_head);
    if (needs.last_row_group) source.last_row_group = first(std::move(trace.attention_last), n_prompt);
    if (needs.attention_received) {
      source.attention_received = first(std::move(trace.attention_received), n_prompt);
      source.attention_queries = first(std::move(trace.attention_queries), n_prompt);
    }
  }
  if (needs.window > 0) source.window_sums = window_sums(recording, *info, needs.window, run, layer, kv_head);
  return source;
}

}  // namespace keyscope::replay
