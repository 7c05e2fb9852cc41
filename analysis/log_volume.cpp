#include "analysis/log_volume.hpp"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>

#include "base/errors.hpp"
#include "analysis/finite_rows.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/similarity.hpp"
#include "analysis/singular_values.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kThreshold = 1e-6;  // of the largest singular value

// log det(I + K̂ᵀK̂).
double regularised_log_det(const MatrixView& keys) {
  GramSum gram(keys.cols());
  const VectorXd norms = row_norms(keys);
  gram.add_scaled(keys, (norms.array() == 0).select(0.0, norms.cwiseInverse()));
  MatrixXd shifted = gram.matrix();
  shifted.diagonal().array() += 1;
  const Eigen::LLT<MatrixXd> cholesky(shifted);  // eigenvalues >= 1: always positive definite
  return 2 * cholesky.matrixLLT().diagonal().array().log().sum();
}

}  // namespace

LogVolume log_volume(const MatrixView& keys) {
  if (keys.rows() == 0 || keys.cols() == 0) throw InvalidInput("log volume: there are no keys");
  require_finite(keys, "log volume");
  const VectorXd squares = squared_singular_values(keys);
  LogVolume volume;
  volume.threshold = kThreshold * std::sqrt(std::max(squares.maxCoeff(), 0.0));
  for (const double square : squares) {
    if (square <= 0 || std::sqrt(square) <= volume.threshold) continue;
    volume.log_volume_nats += std::log(square);
    ++volume.rank;
  }
  volume.regularised_log_volume_nats = regularised_log_det(keys);
  return volume;
}

}  // namespace keyscope::analysis
