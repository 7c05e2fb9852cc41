#include "analysis/leading_eigenpairs.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <gtest/gtest.h>

#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// A matrix of known eigenvalues, along axes turned at random.
MatrixXd with_eigenvalues(const VectorXd& values) {
  const MatrixXd random = sample_rows(1, values.size(), values.size()).cast<double>();
  const MatrixXd axes = Eigen::HouseholderQR<MatrixXd>(random).householderQ();
  const MatrixXd matrix = axes * values.asDiagonal() * axes.transpose();
  return (matrix + matrix.transpose()) / 2;
}

void expect_leading(const MatrixXd& matrix, Index n_pairs) {
  const Eigenpairs pairs = leading_eigenpairs(matrix, n_pairs);
  const Eigen::SelfAdjointEigenSolver<MatrixXd> dense(matrix);
  const VectorXd expected = dense.eigenvalues().tail(n_pairs).reverse();
  EXPECT_LE((pairs.values - expected).norm(), 1e-12 * matrix.trace()) << matrix.rows() << " columns";
  EXPECT_LE(relative_residual(matrix, pairs), 1e-12) << matrix.rows() << " columns";
  EXPECT_LE((pairs.vectors.transpose() * pairs.vectors - MatrixXd::Identity(n_pairs, n_pairs)).norm(), 1e-12);
}

TEST(LeadingEigenpairs, MatchTheDenseSolverAtEverySize) {
  for (const Index n : {1, 2, 30, 64, 128, 600}) {
    const MatrixXd rows = sample_rows(2, 2 * n, n, 0.2, 16).cast<double>();
    for (const Index n_pairs : {1, 2, 3})
      if (n_pairs <= n) expect_leading(rows.transpose() * rows, n_pairs);
  }
}

TEST(LeadingEigenpairs, RepeatedEigenvaluesAreNotMissed) {
  // Iterations from one vector see one direction of a repeated eigenvalue.
  for (const Index n_equal : {2, 3, 5, 100}) {
    VectorXd values = VectorXd::LinSpaced(128, 1, 0.01);
    values.head(n_equal).setConstant(4);
    for (const Index n_pairs : {1, 2, 3, 4}) expect_leading(with_eigenvalues(values), n_pairs);
    MatrixXd diagonal = values.asDiagonal();
    expect_leading(diagonal, 3);
  }
}

TEST(LeadingEigenpairs, OfAlmostEqualAndOfVanishingEigenvalues) {
  VectorXd values = VectorXd::LinSpaced(100, 1, 0.999);  // hardly a gap anywhere
  expect_leading(with_eigenvalues(values), 2);
  values.setZero();
  values[0] = 5;
  expect_leading(with_eigenvalues(values), 3);  // beyond the rank
  const Eigenpairs none = leading_eigenpairs(MatrixXd::Zero(64, 64), 2);
  EXPECT_EQ(none.values.norm(), 0);
  EXPECT_EQ(relative_residual(MatrixXd::Zero(64, 64), none), 0);
}

TEST(LeadingEigenpairs, ResidualTellsWrongPairs) {
  const MatrixXd matrix = VectorXd::LinSpaced(10, 1, 10).asDiagonal();
  Eigenpairs pairs = leading_eigenpairs(matrix, 2);
  pairs.values[1] += 0.55;  // a hundredth of the trace
  EXPECT_NEAR(relative_residual(matrix, pairs), 0.01, 1e-12);
}

}  // namespace
}  // namespace keyscope::analysis
