#include "capture/replay/head_replay.hpp"

#include <algorithm>
#include <limits>

#include "analysis/policies/row_selection.hpp"

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
  for (const std::int32_t position : positions) present.push_back(all[static_cast<std::size_t>(position)]);
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
  for (auto row = positions.begin(); row != past; ++row)
    evictions.evicted_at[static_cast<std::size_t>(*row)] = block;
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
  evictions.evicted_at.assign(static_cast<std::size_t>(n_tokens), -1);
  evictions.evicted_margin.assign(static_cast<std::size_t>(n_tokens),
                                  std::numeric_limits<float>::quiet_NaN());
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
        const auto at = static_cast<std::size_t>(positions[static_cast<std::size_t>(selection.evicted[i])]);
        evictions.evicted_at[at] = block;
        evictions.evicted_margin[at] = selection.margin[i];
      }
      positions = gather(positions, selection.retained);
    }
    after_block(n_new);
  }
  return evictions;
}

}  // namespace keyscope::replay
