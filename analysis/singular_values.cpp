#include "analysis/singular_values.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include "analysis/row_kernels.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// The Gram matrix squares the condition: its eigenvalues carry an absolute error of some 1e-15 of the
// largest. Above this share of it they are good to 1e-8; below, singular values are taken from the rows.
constexpr double kGramResolves = 1e-7;

// Of rows at least as many as columns.
VectorXd squares_of_tall(const MatrixView& rows) {
  GramSum gram(rows.cols());
  gram.add_around(rows, VectorXd::Zero(rows.cols()));
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(gram.matrix(), Eigen::EigenvaluesOnly);
  const VectorXd& eigenvalues = solver.eigenvalues();  // ascending
  const double largest = eigenvalues[eigenvalues.size() - 1];
  if (solver.info() == Eigen::Success && eigenvalues[0] > kGramResolves * largest) return eigenvalues;
  const Eigen::HouseholderQR<MatrixXd> qr(rows.cast<double>());
  const MatrixXd r = qr.matrixQR().topRows(rows.cols()).triangularView<Eigen::Upper>();
  return Eigen::BDCSVD<MatrixXd>(r).singularValues().array().square();
}

}  // namespace

VectorXd squared_singular_values(const MatrixView& rows) {
  if (rows.rows() >= rows.cols()) return squares_of_tall(rows);
  return squares_of_tall(RowMatrixF(rows.transpose()));  // the nonzero singular values are the same
}

}  // namespace keyscope::analysis
