#include "tests/support/dense_algebra.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <Eigen/Eigenvalues>

#include "tests/support/sample_rows.hpp"

namespace keyscope {

using Eigen::MatrixXd;

AscendingEigenpairs ascending_eigenpairs(const MatrixXd& symmetric) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(symmetric);
  return {solver.eigenvalues(), solver.eigenvectors()};
}

Eigen::VectorXd dense_singular_values(const MatrixXd& matrix) {
  MatrixXd a = matrix.cols() > matrix.rows() ? matrix.transpose() : matrix;
  for (bool turned = true; turned;) {
    turned = false;
    for (Eigen::Index q = 1; q < a.cols(); ++q)
      for (Eigen::Index p = 0; p < q; ++p) {
        const double product = a.col(p).dot(a.col(q));
        const double norms = a.col(p).norm() * a.col(q).norm();
        if (std::abs(product) <= 4 * std::numeric_limits<double>::epsilon() * norms) continue;
        // By the angle after which the two are orthogonal.
        const double angle = std::atan2(2 * product, a.col(p).squaredNorm() - a.col(q).squaredNorm()) / 2;
        const Eigen::VectorXd old = a.col(p);
        a.col(p) = std::cos(angle) * old + std::sin(angle) * a.col(q);
        a.col(q) = std::cos(angle) * a.col(q) - std::sin(angle) * old;
        turned = true;
      }
  }
  Eigen::VectorXd values = a.colwise().norm();
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

MatrixXd dense_gram(const MatrixXd& a) { return a.transpose() * a; }

MatrixXd random_rotation(std::uint64_t seed, Eigen::Index d) {
  const MatrixXd random = sample_rows(seed, d, d).cast<double>();
  return ascending_eigenpairs(random + random.transpose()).vectors;
}

}  // namespace keyscope
