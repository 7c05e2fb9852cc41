#include "analysis/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <Eigen/QR>

#include "analysis/matrix_view.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/similarity.hpp"
#include "analysis/symmetric_solvers.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

Spectrum measure_spectrum(const MatrixView& keys) {
  if (keys.rows() == 0 || keys.cols() == 0) throw InvalidInput("spectrum: there are no keys");
  require_finite(keys, "spectrum");
  return spectrum_of(squared_singular_values(keys));
}

Spectrum spectrum_of(const Eigen::VectorXd& squared_singular_values) {
  // Rounding can leave -1e-17 where a singular value is zero.
  Eigen::ArrayXd squares = squared_singular_values.array().max(0.0);
  const double largest = squares.maxCoeff();
  if (largest == 0) return {};
  squares /= largest;
  const Eigen::ArrayXd shares = squares.sqrt() / squares.sqrt().sum();
  double entropy_nats = 0;
  for (const double share : shares)
    if (share > 0) entropy_nats -= share * std::log(share);
  return {squares.sum() * squares.sum() / squares.square().sum(), std::exp(entropy_nats)};
}

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// The Gram matrix squares the condition: its eigenvalues carry an absolute error of some 1e-15 of the
// largest. Above this share of it they are good to 1e-8; below, singular values are taken from the rows.
constexpr double kGramResolves = 1e-7;

// Of a square matrix A, ascending: [0 A; A^T 0] has the eigenvalues ±σ (Golub and Van Loan, 4th
// edition, 8.6.1), with the absolute error of an SVD of A, and is solved by what is compiled for the Gram
// matrix anyway.
VectorXd singular_values(const MatrixXd& a) {
  const Eigen::Index d = a.rows();
  MatrixXd mirrored = MatrixXd::Zero(2 * d, 2 * d);
  mirrored.topRightCorner(d, d) = a;
  mirrored.bottomLeftCorner(d, d) = a.transpose();
  const VectorXd eigenvalues = ascending_eigenvalues(mirrored);
  if (!eigenvalues.allFinite()) throw std::runtime_error("singular values: the solver does not converge");
  return eigenvalues.tail(d);
}

// Of rows at least as many as columns.
VectorXd squares_of_tall(const MatrixView& rows) {
  GramSum gram(rows.cols());
  gram.add_around(rows, VectorXd::Zero(rows.cols()));
  VectorXd eigenvalues = ascending_eigenvalues(gram.matrix());
  if (eigenvalues[0] > kGramResolves * eigenvalues[eigenvalues.size() - 1]) return eigenvalues;
  const Eigen::HouseholderQR<MatrixXd> qr(rows.cast<double>());
  return singular_values(qr.matrixQR().topRows(rows.cols()).triangularView<Eigen::Upper>()).array().square();
}

}  // namespace

VectorXd squared_singular_values(const MatrixView& rows) {
  if (rows.rows() >= rows.cols()) return squares_of_tall(rows);
  return squares_of_tall(RowMatrixF(rows.transpose()));  // the nonzero singular values are the same
}

namespace {

using Eigen::Index;

constexpr double kThreshold = 1e-6;  // of the largest singular value

// log det(I + K̂ᵀK̂).
double regularised_log_det(const MatrixView& keys) {
  GramSum gram(keys.cols());
  const VectorXd norms = row_norms(keys);
  gram.add_scaled(keys, (norms.array() == 0).select(0.0, norms.cwiseInverse()));
  MatrixXd shifted = gram.matrix();
  shifted.diagonal().array() += 1;
  return log_det(shifted);  // eigenvalues >= 1: always positive definite
}

}  // namespace

LogVolume log_volume(const MatrixView& keys) {
  if (keys.rows() == 0 || keys.cols() == 0) throw InvalidInput("log volume: there are no keys");
  require_finite(keys, "log volume");
  return log_volume_of(keys, squared_singular_values(keys));
}

LogVolume log_volume_of(const MatrixView& keys, const Eigen::VectorXd& squares) {
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
