#include "analysis/log_volume.hpp"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include "analysis/errors.hpp"
#include "analysis/finite_rows.hpp"
#include "analysis/gram_sum.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kThreshold = 1e-6;  // of the largest singular value
// The Gram matrix squares the condition: its eigenvalues carry an absolute error of some 1e-15 of the
// largest. Above this share of it, their logarithms are good to 1e-8; below, singular values are taken from
// the keys.
constexpr double kGramResolves = 1e-7;

// The keys, or their transpose where that has the smaller Gram matrix; the nonzero singular values are the
// same, and so is det(I + K̂ᵀK̂) = det(I + K̂K̂ᵀ) (Sylvester).
RowMatrixD tall(const RowMatrixD& keys) {
  if (keys.rows() >= keys.cols()) return keys;
  return keys.transpose();
}

MatrixXd gram_matrix(const RowMatrixD& rows) {
  GramSum gram(rows.cols());
  for (Index first = 0; first < rows.rows(); first += kGramTileRows)
    gram.add(rows.middleRows(first, std::min(kGramTileRows, rows.rows() - first)));
  return gram.matrix();
}

// Squared singular values, in any order.
VectorXd squared_singular_values(const RowMatrixD& rows) {
  const MatrixXd gram = gram_matrix(rows);
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  const VectorXd& eigenvalues = solver.eigenvalues();  // ascending
  const double largest = eigenvalues[eigenvalues.size() - 1];
  if (solver.info() == Eigen::Success && eigenvalues[0] > kGramResolves * largest) return eigenvalues;
  const Eigen::HouseholderQR<MatrixXd> qr(rows);
  const MatrixXd r = qr.matrixQR().topRows(rows.cols()).triangularView<Eigen::Upper>();
  return Eigen::BDCSVD<MatrixXd>(r).singularValues().array().square();
}

double regularised_log_det(RowMatrixD keys) {
  for (Index i = 0; i < keys.rows(); ++i) {
    const double norm = keys.row(i).norm();
    if (norm != 0) keys.row(i) /= norm;
  }
  MatrixXd shifted = gram_matrix(tall(keys));
  shifted.diagonal().array() += 1;
  const Eigen::LLT<MatrixXd> cholesky(shifted);  // eigenvalues >= 1: always positive definite
  return 2 * cholesky.matrixLLT().diagonal().array().log().sum();
}

}  // namespace

LogVolume log_volume(const MatrixView& keys) {
  if (keys.rows() == 0 || keys.cols() == 0) throw InvalidInput("log volume: there are no keys");
  require_finite(keys, "log volume");
  const RowMatrixD wide = keys.cast<double>();
  const VectorXd squares = squared_singular_values(tall(wide));
  LogVolume volume;
  volume.threshold = kThreshold * std::sqrt(std::max(squares.maxCoeff(), 0.0));
  for (const double square : squares) {
    if (square <= 0 || std::sqrt(square) <= volume.threshold) continue;
    volume.log_volume_nats += std::log(square);
    ++volume.rank;
  }
  volume.regularised_log_volume_nats = regularised_log_det(wide);
  return volume;
}

}  // namespace keyscope::analysis
