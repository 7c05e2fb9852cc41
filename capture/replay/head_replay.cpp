#include "capture/replay/head_replay.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/row_selection.hpp"
#include "base/errors.hpp"

namespace keyscope::replay {

namespace {

using analysis::PolicyInput;

// What a policy may look at, of the rows that are present.
struct PresentRows {
  RowMatrixF keys, values;
  std::vector<float> last_row_group, last_row_layer, window_sums;
  std::vector<double> attention_received;
  std::vector<std::int32_t> attention_queries;
};

RowMatrixF gather(const RowMatrixF& all, const std::vector<std::int32_t>& positions) {
  if (all.rows() == 0) return RowMatrixF(0, all.cols());
  RowMatrixF present(static_cast<Eigen::Index>(positions.size()), all.cols());
  for (std::size_t i = 0; i < positions.size(); ++i)
    present.row(static_cast<Eigen::Index>(i)) = all.row(positions[i]);
  return present;
}

template <typename T>
std::vector<T> gather(const std::vector<T>& all, const std::vector<std::int32_t>& positions) {
  std::vector<T> present;
  if (all.empty()) return present;
  present.reserve(positions.size());
  for (const std::int32_t position : positions) present.push_back(all[position]);
  return present;
}

PresentRows gather(const HeadSource& source, const std::vector<std::int32_t>& positions) {
  return {gather(source.keys, positions),
          gather(source.values, positions),
          gather(source.last_row_group, positions),
          gather(source.last_row_layer, positions),
          gather(source.window_sums, positions),
          gather(source.attention_received, positions),
          gather(source.attention_queries, positions)};
}

analysis::Selection select(const analysis::Policy& policy, const PresentRows& rows,
                           const std::vector<std::int32_t>& positions, std::int64_t n_new,
                           const HeadCache& cache) {
  const PolicyInput input{.keys = rows.keys,
                          .values = rows.values,
                          .positions = positions,
                          .n_new_rows = n_new,
                          .budget = cache.budget,
                          .layer = cache.layer,
                          .kv_head = cache.kv_head,
                          .last_row_group = rows.last_row_group,
                          .last_row_layer = rows.last_row_layer,
                          .attention_received = rows.attention_received,
                          .attention_queries = rows.attention_queries,
                          .window_sums = rows.window_sums};
  std::vector<double> scores(positions.size());
  std::vector<std::uint8_t> forced(positions.size());
  policy.score(input, scores);
  policy.force(input, cache.budget, forced);
  return analysis::select_rows(scores, forced, cache.budget);
}

// Rows that no query from `next` on sees go first and for good, and have no margin.
void drop_past_window(std::int64_t window, std::int64_t next, std::int32_t block,
                      std::vector<std::int32_t>& positions, HeadEvictions& evictions) {
  const auto past = std::lower_bound(positions.begin(), positions.end(), next - window + 1);
  for (auto row = positions.begin(); row != past; ++row) evictions.evicted_at[*row] = block;
  positions.erase(positions.begin(), past);
}

}  // namespace

std::int64_t HeadEvictions::n_retained() const {
  return std::count(evicted_at.begin(), evicted_at.end(), -1);
}

HeadEvictions replay_head(const analysis::Policy& policy, const HeadSource& source, const HeadCache& cache,
                          const std::function<void(std::int64_t n_rows)>& after_block) {
  const std::int64_t n_tokens = source.keys.rows();
  HeadEvictions evictions;
  evictions.evicted_at.assign(n_tokens, -1);
  evictions.evicted_margin.assign(n_tokens, std::numeric_limits<float>::quiet_NaN());
  std::vector<std::int32_t> positions;  // of the rows that are present, ascending
  std::int32_t block = 0;
  for (std::int64_t start = 0; start < n_tokens; start += cache.block_size, ++block) {
    const std::int64_t n_new = std::min(cache.block_size, n_tokens - start);
    for (std::int64_t i = 0; i < n_new; ++i) positions.push_back(static_cast<std::int32_t>(start + i));
    if (cache.window > 0) drop_past_window(cache.window, start + n_new, block, positions, evictions);
    const bool due = static_cast<std::int64_t>(positions.size()) > cache.budget && policy.evicts(cache.layer);
    if (due) {
      const auto selection = select(policy, gather(source, positions), positions,
                                    std::min(n_new, static_cast<std::int64_t>(positions.size())), cache);
      for (std::size_t i = 0; i < selection.evicted.size(); ++i) {
        const std::int32_t at = positions[selection.evicted[i]];
        evictions.evicted_at[at] = block;
        evictions.evicted_margin[at] = selection.margin[i];
      }
      positions = gather(positions, selection.retained);
    }
    after_block(n_new);
  }
  return evictions;
}

namespace {

using analysis::PolicyNeeds;
using recording::Recording;
using recording::RecordingInfo;

void check_finite(const RowMatrixF& rows, std::string_view what, const RecordingInfo& info, int run,
                  int layer, int kv_head) {
  try {
    analysis::require_finite(rows, what);
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}, layer {}, KV head {}: {}", info.source, info.runs[run].plan.name,
                                layer, kv_head, error.what()));
  }
}

template <typename T>
std::vector<T> first(std::vector<T> values, std::int64_t n) {
  values.resize(n);
  return values;
}

std::vector<float> as_float(const Eigen::VectorXd& values) {
  std::vector<float> floats(values.size());
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
  const int group_size = info.model.group_size(layer);
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
  const int n_kv_heads = info->model.heads(layer).n_kv_heads;
  for (int head = 0; head < n_kv_heads; ++head) {
    const auto last = recording.trace(run, layer, head).attention_last;
    for (Eigen::Index i = 0; i < sum.size(); ++i) sum[i] += last[i];
  }
  return as_float(sum / n_kv_heads);
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
