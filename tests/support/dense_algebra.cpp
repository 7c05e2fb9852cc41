#include "tests/support/dense_algebra.hpp"

#include <Eigen/Eigenvalues>

#include "tests/support/sample_rows.hpp"

namespace keyscope {

using Eigen::MatrixXd;

analysis::Eigenpairs all_eigenpairs(const MatrixXd& symmetric) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(symmetric);
  return {solver.eigenvalues().reverse(), solver.eigenvectors().rowwise().reverse()};
}

MatrixXd dense_gram(const MatrixXd& a) { return a.transpose() * a; }

MatrixXd random_rotation(std::uint64_t seed, Eigen::Index d) {
  const MatrixXd random = sample_rows(seed, d, d).cast<double>();
  return all_eigenpairs(random + random.transpose()).vectors;
}

}  // namespace keyscope
