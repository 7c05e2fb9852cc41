#include "analysis/singular_values.hpp"

#include <algorithm>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include "analysis/gram_sum.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// The Gram matrix squares the condition: its eigenvalues carry an absolute error of some 1e-15 of the
// largest. Above this share of it they are good to 1e-8; below, singular values are taken from the rows.
constexpr double kGramResolves = 1e-7;

}  // namespace

RowMatrixD tall(const RowMatrixD& rows) {
  if (rows.rows() >= rows.cols()) return rows;
  return rows.transpose();
}

MatrixXd gram_matrix(const RowMatrixD& rows) {
  GramSum gram(rows.cols());
  for (Index first = 0; first < rows.rows(); first += kGramTileRows)
    gram.add(rows.middleRows(first, std::min(kGramTileRows, rows.rows() - first)));
  return gram.matrix();
}

VectorXd squared_singular_values(const RowMatrixD& rows) {
  const RowMatrixD narrow = tall(rows);
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(gram_matrix(narrow), Eigen::EigenvaluesOnly);
  const VectorXd& eigenvalues = solver.eigenvalues();  // ascending
  const double largest = eigenvalues[eigenvalues.size() - 1];
  if (solver.info() == Eigen::Success && eigenvalues[0] > kGramResolves * largest) return eigenvalues;
  const Eigen::HouseholderQR<MatrixXd> qr(narrow);
  const MatrixXd r = qr.matrixQR().topRows(narrow.cols()).triangularView<Eigen::Upper>();
  return Eigen::BDCSVD<MatrixXd>(r).singularValues().array().square();
}

}  // namespace keyscope::analysis
