#include "analysis/symmetric_solvers.hpp"

#include <limits>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

namespace keyscope::analysis {

using Eigen::MatrixXd;
using Eigen::VectorXd;

Eigenpairs ascending_eigenpairs(const MatrixXd& symmetric) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(symmetric);
  return {solver.eigenvalues(), solver.eigenvectors()};
}

VectorXd ascending_eigenvalues(const MatrixXd& symmetric) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(symmetric, Eigen::EigenvaluesOnly);
  if (solver.info() == Eigen::Success) return solver.eigenvalues();
  return VectorXd::Constant(symmetric.rows(), std::numeric_limits<double>::quiet_NaN());
}

bool is_positive_definite(const MatrixXd& symmetric) {
  return Eigen::LLT<MatrixXd>(symmetric).info() == Eigen::Success;
}

double log_det(const MatrixXd& positive_definite) {
  return 2 * Eigen::LLT<MatrixXd>(positive_definite).matrixLLT().diagonal().array().log().sum();
}

}  // namespace keyscope::analysis
