#include "tests/analysis/policies/block_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Positions = std::vector<std::int32_t>;

RowMatrixF rows_at(const RowMatrixF& all, const Positions& positions) {
  RowMatrixF rows(static_cast<Index>(positions.size()), all.cols());
  for (std::size_t i = 0; i < positions.size(); ++i) rows.row(static_cast<Index>(i)) = all.row(positions[i]);
  return rows;
}

// Weights of the query at `position` over the rows, mean over the heads' query heads.
std::vector<float> last_row(const std::vector<SimulatedHead>& heads, const std::vector<Positions>& present,
                            std::size_t first_head, std::size_t end_head, std::int32_t position) {
  Eigen::ArrayXd mean = Eigen::ArrayXd::Zero(static_cast<Index>(present[first_head].size()));
  double n_query_heads = 0;
  for (std::size_t h = first_head; h < end_head; ++h)
    for (const auto& queries : heads[h].queries) {
      const RowMatrixD rows = rows_at(heads[h].keys, present[h]).cast<double>();
      const Eigen::VectorXd query = queries.row(position).cast<double>().transpose();
      Eigen::ArrayXd weights = (rows * query).array() / std::sqrt(static_cast<double>(rows.cols()));
      weights = (weights - weights.maxCoeff()).exp();
      mean += weights / weights.sum();
      ++n_query_heads;
    }
  mean /= n_query_heads;
  return {mean.data(), mean.data() + mean.size()};
}

}  // namespace

std::vector<SimulatedTrace> simulate_blocks(const std::string& policy_text,
                                            const std::vector<SimulatedHead>& heads, std::int64_t budget,
                                            std::int32_t block) {
  const auto policy = make_policy(parse_policy(policy_text), 0);
  const PolicyNeeds needs = policy->needs();
  const auto n_tokens = static_cast<std::int32_t>(heads.front().keys.rows());
  std::vector<SimulatedTrace> traces(heads.size());
  for (auto& trace : traces) {
    trace.evicted_at.assign(n_tokens, -1);
    trace.margin.assign(n_tokens, std::numeric_limits<float>::quiet_NaN());
  }
  std::vector<Positions> present(heads.size());
  for (std::int32_t index = 0, start = 0; start < n_tokens; ++index, start += block) {
    const std::int32_t end = std::min(start + block, n_tokens);
    for (auto& rows : present)
      for (std::int32_t position = start; position < end; ++position) rows.push_back(position);
    const auto before = present;
    for (std::size_t h = 0; h < heads.size(); ++h) {
      const RowMatrixF keys = rows_at(heads[h].keys, before[h]);
      const auto group =
          needs.last_row_group ? last_row(heads, before, h, h + 1, end - 1) : std::vector<float>{};
      const auto layer =
          needs.last_row_layer ? last_row(heads, before, 0, heads.size(), end - 1) : std::vector<float>{};
      PolicyInput input{
          .keys = keys, .values = RowMatrixF(0, 0), .positions = before[h], .n_new_rows = end - start};
      input.kv_head = static_cast<int>(h);
      input.last_row_group = group;
      input.last_row_layer = layer;
      std::vector<double> scores(before[h].size());
      std::vector<std::uint8_t> forced(before[h].size());
      policy->score(input, scores);
      policy->force(input, budget, forced);
      const Selection selection = select_rows(scores, forced, budget);
      present[h].clear();
      for (const auto row : selection.retained) present[h].push_back(before[h][row]);
      for (std::size_t i = 0; i < selection.evicted.size(); ++i) {
        const auto at = static_cast<std::size_t>(before[h][selection.evicted[i]]);
        traces[h].evicted_at[at] = index;
        traces[h].margin[at] = selection.margin[i];
      }
    }
  }
  return traces;
}

}  // namespace keyscope::analysis
