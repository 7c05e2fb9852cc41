#include "analysis/policies/score_parts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/symmetric_solvers.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

Eigen::ArrayXd standardised(const Eigen::ArrayXd& scores) {
  constexpr double kLeastDeviation = 1e-6;
  const Eigen::ArrayXd centred = scores - scores.mean();
  return centred / std::max(std::sqrt(centred.square().mean()), kLeastDeviation);
}

Eigen::ArrayXd leverages(const RowMatrixD& rows, const char* policy, double ridge) {
  constexpr double kSmallestEigenvalue = 1e-10;  // of the largest
  const Eigen::MatrixXd gram = rows.transpose() * rows;
  if (!gram.allFinite()) throw InvalidInput(fmt::format("policy {}: the keys hold NaN or Inf", policy));
  const auto [values, vectors] = ascending_eigenpairs(gram);
  const double cut = kSmallestEigenvalue * values.maxCoeff();
  const Eigen::ArrayXd weight = (values.array() > cut).select((values.array() + ridge).inverse().sqrt(), 0.0);
  const Eigen::MatrixXd whitening = vectors * weight.matrix().asDiagonal();
  return (rows * whitening).rowwise().squaredNorm().array();
}

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
      if (visible && !std::isfinite(weights(i, row)))
        throw InvalidInput(
            fmt::format("attention of the last queries: the product of the query at position {} and the key "
                        "at position {} "
                        "is {}; keys and queries must be finite",
                        query, positions[row], weights(i, row)));
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

std::int64_t read_kernel(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  const std::uint64_t kernel = read_whole_number(spec, "kernel", 1, kMost);
  if (kernel % 2 == 0)
    throw UsageError(
        fmt::format("policy {}: kernel={} is even; expected an odd number, so that a row lies in the middle",
                    spec.name, kernel));
  return static_cast<std::int64_t>(kernel);
}

}  // namespace keyscope::analysis
