#include "analysis/similarity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/statistics.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr Index kBatchRows = 32;

std::span<double> span_of(VectorXd& vector) {
  return {vector.data(), static_cast<std::size_t>(vector.size())};
}
std::span<const double> span_of(const VectorXd& vector) {
  return {vector.data(), static_cast<std::size_t>(vector.size())};
}

double quotient_or_zero(double product, double norms) {
  if (norms == 0) return 0;
  return std::clamp(product / norms, -1.0, 1.0);  // a NaN passes through
}

// Each row's norm, or infinity for a row of norm zero: which has no direction, and adds nothing.
VectorXd divisors_to_unit(const MatrixView& rows) {
  const VectorXd norms = row_norms(rows);
  return (norms.array() == 0).select(std::numeric_limits<double>::infinity(), norms);
}

double median_of(std::vector<float>& values) {
  for (const float value : values)
    if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double upper = static_cast<double>(*middle);
  if (values.size() % 2 == 1) return upper;
  return (static_cast<double>(*std::max_element(values.begin(), middle)) + upper) / 2;
}

}  // namespace

VectorXd mean_row(const MatrixView& rows) {
  VectorXd mean = VectorXd::Zero(rows.cols());
  if (rows.rows() == 0) return mean;
  add_rows(rows, span_of(mean));
  return mean / static_cast<double>(rows.rows());
}

VectorXd normalized_mean_row(const MatrixView& rows) {
  VectorXd sum = VectorXd::Zero(rows.cols());
  if (rows.rows() == 0) return sum;
  const VectorXd divisors = divisors_to_unit(rows);
  add_divided_rows(rows, span_of(divisors), span_of(sum));
  return sum / static_cast<double>(rows.rows());
}

VectorXd median_row(const MatrixView& rows) {
  VectorXd median = VectorXd::Zero(rows.cols());
  if (rows.rows() == 0) return median;
  std::vector<float> column(rows.rows());
  for (Index j = 0; j < rows.cols(); ++j) {
    for (Index i = 0; i < rows.rows(); ++i) column[i] = rows(i, j);
    median[j] = median_of(column);
  }
  return median;
}

VectorXd row_norms(const MatrixView& rows) {
  const VectorXd nothing = VectorXd::Zero(rows.cols());
  VectorXd products(rows.rows());
  VectorXd squared_norms(rows.rows());
  row_products(rows, span_of(nothing), span_of(products), span_of(squared_norms));
  return squared_norms.cwiseSqrt();
}

RowMatrixD unit_rows(const MatrixView& rows) {
  RowMatrixD unit = rows.cast<double>();
  for (Index i = 0; i < unit.rows(); ++i) {
    const double norm = unit.row(i).norm();
    if (norm != 0) unit.row(i) /= norm;
  }
  return unit;
}

double cosine(const VectorXd& a, const VectorXd& b) {
  return quotient_or_zero(a.dot(b), a.norm() * b.norm());
}

VectorXd cosines_to(const MatrixView& rows, const VectorXd& anchor) {
  if (rows.cols() != anchor.size())
    throw InvalidInput(fmt::format("cosines to an anchor: rows of {} columns, but an anchor of {}",
                                   rows.cols(), anchor.size()));
  VectorXd cosines(rows.rows());
  VectorXd squared_norms(rows.rows());
  row_products(rows, span_of(anchor), span_of(cosines), span_of(squared_norms));
  const double anchor_norm = anchor.norm();
  for (Index i = 0; i < rows.rows(); ++i)
    cosines[i] = quotient_or_zero(cosines[i], std::sqrt(squared_norms[i]) * anchor_norm);
  return cosines;
}

RowMatrixD cosine_matrix(const MatrixView& rows) {
  const Index n_rows = rows.rows();
  const RowMatrixD unit = unit_rows(rows);
  const PackedRows packed(unit);
  RowMatrixD cosines(n_rows, n_rows);
  RowMatrixD tile;  // a band of the upper triangle, which is then mirrored
  for (Index first = 0; first < n_rows; first += kBatchRows) {
    const Index n = std::min(kBatchRows, n_rows - first);
    packed.multiply(unit.middleRows(first, n), tile, first);
    // Not cwiseMin and cwiseMax: they may replace NaN.
    for (double& c : std::span(tile.data(), tile.size())) c = std::clamp(c, -1.0, 1.0);
    cosines.block(first, first, n, n_rows - first) = tile;
    cosines.block(first, first, n_rows - first, n) = tile.transpose();
  }
  return cosines;
}

PairwiseCosines pairwise_cosines(const MatrixView& rows) {
  VectorXd sum = VectorXd::Zero(rows.cols());
  const VectorXd divisors = divisors_to_unit(rows);
  add_divided_rows(rows, span_of(divisors), span_of(sum));
  PairwiseCosines cosines{sum.squaredNorm(), std::numeric_limits<double>::quiet_NaN()};
  if (rows.rows() < 2) return cosines;
  // Each row that has a direction meets itself once, with cosine 1.
  const auto n = static_cast<double>(rows.rows());
  const auto n_zero =
      static_cast<double>((divisors.array() == std::numeric_limits<double>::infinity()).count());
  cosines.mean = std::clamp((cosines.sum - (n - n_zero)) / (n * (n - 1)), -1.0, 1.0);
  return cosines;
}

NormSummary summarise_norms(const MatrixView& rows) {
  require_finite(rows, "norms");
  const VectorXd norms = row_norms(rows);
  constexpr std::array<double, 7> kProbabilities{0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};
  const auto at = quantiles({norms.data(), static_cast<std::size_t>(norms.size())}, kProbabilities);
  const double mean = norms.size() > 0 ? norms.mean() : std::numeric_limits<double>::quiet_NaN();
  return {at[0], at[1], at[2], at[3], at[4], at[5], at[6], mean};
}

Index top_key(const VectorXd& key_cosines) {
  Index top = 0;
  key_cosines.minCoeff(&top);
  return top;
}

HeadGeometry measure_head_geometry(const MatrixView& keys, const MatrixView& queries) {
  if (keys.rows() == 0) throw InvalidInput("head geometry: there are no keys");
  if (keys.cols() != queries.cols())
    throw InvalidInput(
        fmt::format("head geometry: keys of {} columns, but queries of {}", keys.cols(), queries.cols()));
  HeadGeometry geometry;
  geometry.key_norms = summarise_norms(keys);
  geometry.query_norms = summarise_norms(queries);
  const VectorXd mean_key = mean_row(keys);
  geometry.key_cosines = cosines_to(keys, mean_key);
  geometry.top_key = top_key(geometry.key_cosines);
  if (queries.rows() == 0) {
    geometry.mean_cosine = geometry.top_key_query_cosine = std::numeric_limits<double>::quiet_NaN();
    return geometry;
  }
  const VectorXd mean_query = mean_row(queries);
  geometry.query_cosines = cosines_to(queries, mean_query);
  geometry.mean_cosine = cosine(mean_key, mean_query);
  geometry.top_key_query_cosine = cosine(keys.row(geometry.top_key).cast<double>().transpose(), mean_query);
  return geometry;
}

}  // namespace keyscope::analysis
