#include "analysis/policies/query_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyscope::analysis {

RowMatrixD weights_on_rows(const RowMatrixD& queries, std::int64_t end, std::span<const AttentionRules> rules,
                           const MatrixView& keys, std::span<const std::int32_t> positions) {
  RowMatrixD weights = queries * keys.cast<double>().transpose();
  const Eigen::Index n = queries.rows() / std::ssize(rules);
  for (Eigen::Index i = 0; i < weights.rows(); ++i) {
    const AttentionRules& rule = rules[i / n];
    const std::int64_t query = end - n + i % n;
    double largest = rule.sink;
    for (Eigen::Index row = 0; row < weights.cols(); ++row) {
      const bool visible = positions[row] <= query && positions[row] >= rule.oldest_visible(query);
      weights(i, row) = visible ? rule.score(weights(i, row)) : -std::numeric_limits<double>::infinity();
      largest = std::max(largest, weights(i, row));
    }
    if (std::isinf(largest)) {  // all that the query saw is past the layer's window
      weights.row(i).setZero();
      continue;
    }
    weights.row(i) = (weights.row(i).array() - largest).exp();
    const double sum = weights.row(i).sum() + std::exp(rule.sink - largest);
    weights.row(i) /= sum;
  }
  return weights;
}

}  // namespace keyscope::analysis
