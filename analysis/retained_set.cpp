#include "analysis/retained_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

void require_position(std::int32_t position, std::size_t n_tokens, const char* subject) {
  if (position < 0 || static_cast<std::size_t>(position) >= n_tokens)
    throw InvalidInput(fmt::format("{}: position {} of {} tokens", subject, position, n_tokens));
}

void check_attention(const MatrixView& queries, std::span<const std::int32_t> query_positions,
                     const MatrixView& keys, const MatrixView& values, std::span<const std::int32_t> retained,
                     std::span<const AttentionRules> rules) {
  if (rules.empty() || queries.rows() % static_cast<Index>(rules.size()) != 0)
    throw InvalidInput(
        fmt::format("output error: {} queries of {} query heads", queries.rows(), rules.size()));
  if (queries.cols() != keys.cols() || values.rows() != keys.rows() ||
      query_positions.size() != static_cast<std::size_t>(queries.rows()))
    throw InvalidInput(fmt::format(
        "output error: queries ({}, {}) at {} positions, keys ({}, {}) and values ({}, {}) do not match",
        queries.rows(), queries.cols(), query_positions.size(), keys.rows(), keys.cols(), values.rows(),
        values.cols()));
  const auto n_tokens = static_cast<std::size_t>(keys.rows());
  for (const auto position : query_positions) require_position(position, n_tokens, "output error");
  for (const auto position : retained) require_position(position, n_tokens, "output error");
  require_finite(queries, "output error: queries");
  require_finite(keys, "output error: keys");
  require_finite(values, "output error: values");
}

// Sum of the visible rows' values by softmax, in which the sink has its part; zero if there are none.
VectorXd attend(const VectorXd& scores, double sink, std::span<const std::int32_t> visible,
                const RowMatrixD& values) {
  VectorXd output = VectorXd::Zero(values.cols());
  if (visible.empty()) return output;
  double largest = sink;
  for (const auto row : visible) largest = std::max(largest, scores[row]);
  double total = std::exp(sink - largest);
  for (const auto row : visible) {
    const double weight = std::exp(scores[row] - largest);
    total += weight;
    output += weight * values.row(row).transpose();
  }
  if (total > 0) output /= total;
  return output;
}

// Those of ascending positions that a query sees.
std::span<const std::int32_t> visible(std::span<const std::int32_t> positions, std::int32_t query,
                                      const AttentionRules& rules) {
  const auto end = std::upper_bound(positions.begin(), positions.end(), query);
  return {std::lower_bound(positions.begin(), end, rules.oldest_visible(query)), end};
}

}  // namespace

double attention_mass_kept(std::span<const double> attention_received,
                           std::span<const std::int32_t> retained) {
  double kept = 0;
  double total = 0;
  for (const double received : attention_received) total += received;
  for (const auto position : retained) {
    require_position(position, attention_received.size(), "attention mass kept");
    kept += attention_received[position];
  }
  return total > 0 ? kept / total : kUndefined;
}

double jaccard(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t n_shared = 0;
  while (i < a.size() && j < b.size()) {
    n_shared += a[i] == b[j] ? 1U : 0U;
    const bool a_first = a[i] <= b[j];
    const bool b_first = b[j] <= a[i];
    i += a_first ? 1U : 0U;
    j += b_first ? 1U : 0U;
  }
  const std::size_t n_either = a.size() + b.size() - n_shared;
  return n_either > 0 ? static_cast<double>(n_shared) / static_cast<double>(n_either) : kUndefined;
}

double cosine_objective(const MatrixView& retained_keys) {
  const auto n = static_cast<double>(retained_keys.rows());
  return (normalized_mean_row(retained_keys) * n).squaredNorm();
}

double output_error(const MatrixView& queries, std::span<const std::int32_t> query_positions,
                    const MatrixView& keys, const MatrixView& values, std::span<const std::int32_t> retained,
                    std::span<const AttentionRules> rules) {
  check_attention(queries, query_positions, keys, values, retained, rules);
  const RowMatrixD wide_keys = keys.cast<double>();
  const RowMatrixD wide_values = values.cast<double>();
  std::vector<std::int32_t> all(keys.rows());
  std::iota(all.begin(), all.end(), 0);
  const Index n_of_head = queries.rows() / static_cast<Index>(rules.size());
  double squared_error = 0;
  double squared_norm = 0;
  for (Index i = 0; i < queries.rows(); ++i) {
    const AttentionRules& head = rules[i / n_of_head];
    VectorXd scores = wide_keys * queries.row(i).cast<double>().transpose();
    for (double& score : scores) score = head.score(score);
    const auto query = query_positions[i];
    const VectorXd full = attend(scores, head.sink, visible(all, query, head), wide_values);
    squared_error +=
        (attend(scores, head.sink, visible(retained, query, head), wide_values) - full).squaredNorm();
    squared_norm += full.squaredNorm();
  }
  return squared_norm > 0 ? std::sqrt(squared_error / squared_norm) : kUndefined;
}

}  // namespace keyscope::analysis
