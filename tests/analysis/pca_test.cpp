#include "analysis/pca.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/dense_algebra.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// A matrix of known eigenvalues, along axes turned at random.
MatrixXd with_eigenvalues(const VectorXd& values, std::uint64_t seed = 1) {
  const MatrixXd axes = random_rotation(seed, values.size());
  const MatrixXd matrix = axes * values.asDiagonal() * axes.transpose();
  return (matrix + matrix.transpose()) / 2;
}

// Asks for each of these numbers of pairs, except for more than there are.
void expect_leading(const MatrixXd& matrix, const std::vector<Index>& counts) {
  const VectorXd eigenvalues = all_eigenpairs(matrix).values;
  for (const Index n_pairs : counts) {
    if (n_pairs > matrix.rows()) continue;
    const Eigenpairs pairs = leading_eigenpairs(matrix, n_pairs);
    EXPECT_LE((pairs.values - eigenvalues.head(n_pairs)).norm(), 1e-12 * matrix.trace())
        << matrix.rows() << " columns";
    EXPECT_LE(relative_residual(matrix, pairs), 1e-12) << matrix.rows() << " columns";
    EXPECT_LE((dense_gram(pairs.vectors) - MatrixXd::Identity(n_pairs, n_pairs)).norm(), 1e-12);
  }
}

TEST(LeadingEigenpairs, MatchTheDenseSolverAtEverySize) {
  for (const Index n : {1, 2, 30, 64, 128, 320}) {
    const MatrixXd rows = sample_rows(2, 2 * n, n, 0.2, 16).cast<double>();
    expect_leading(dense_gram(rows), {1, 2, 3, 25});
  }
}

TEST(LeadingEigenpairs, RepeatedEigenvaluesAreNotMissed) {
  // Iterations from one vector see one direction of a repeated eigenvalue.
  for (const Index n_equal : {2, 3, 5, 100}) {
    VectorXd values = VectorXd::LinSpaced(128, 1, 0.01);
    values.head(n_equal).setConstant(4);
    expect_leading(with_eigenvalues(values), {1, 2, 3, 4});
    expect_leading(values.asDiagonal().toDenseMatrix(), {3});
  }
}

TEST(LeadingEigenpairs, OfAlmostEqualAndOfVanishingEigenvalues) {
  VectorXd values = VectorXd::LinSpaced(100, 1, 0.999);  // hardly a gap anywhere
  expect_leading(with_eigenvalues(values), {2});
  values.setZero();
  values[0] = 5;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)  // beyond the rank, where iterations may not settle
    expect_leading(with_eigenvalues(values, seed), {3});
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

Pca fit(const RowMatrixF& rows, int n_components) {
  const std::vector<MatrixView> blocks{rows};
  return fit_pca(blocks, n_components);
}

// Largest sine of the angles between two subspaces of orthonormal columns.
double subspace_distance(const MatrixXd& a, const MatrixXd& b) {
  return (b - a * (a.transpose() * b)).norm();
}

TEST(Pca, MatchesScikitLearn) {
  for (const auto& golden : read_goldens("analysis_goldens.json", "pca")) {
    const auto cols = golden["cols"].get<Index>();
    std::vector<RowMatrixF> rows;
    for (std::size_t i = 0; i < golden["rows"].size(); ++i)
      rows.push_back(sample_rows(golden["seed"].get<std::uint64_t>() + 1000 * i,
                                 golden["rows"][i].get<Index>(), cols, golden["offsets"][i].get<double>(),
                                 golden["halve_every"].get<Index>()));
    const std::vector<MatrixView> blocks(rows.begin(), rows.end());
    const Pca pca = fit_pca(blocks, 3);
    EXPECT_LE(pca.relative_residual, 1e-12);
    const RowMatrixD first = project(pca, rows.front().topRows(1));
    MatrixXd expected(cols, 3);
    for (Index k = 0; k < 3; ++k) {
      const auto at = static_cast<std::size_t>(k);
      EXPECT_NEAR(pca.explained_ratio[k], golden["ratio"][at].get<double>(), 1e-12);
      EXPECT_NEAR(pca.explained_variance[k], golden["variance"][at].get<double>(),
                  1e-11 * golden["variance"][0].get<double>());
      EXPECT_NEAR(first(0, k), golden["first_row"][at].get<double>(), 1e-8);
      for (Index j = 0; j < cols; ++j) expected(j, k) = golden["axes"][at][j].get<double>();
    }
    EXPECT_LE(subspace_distance(pca.axes, expected), 1e-9) << cols << " columns";
  }
}

TEST(Pca, WorkedByHand) {
  // Along (1, 1)/√2 by ±√2, across by ±√2/10, around (5, 7).
  RowMatrixF rows(4, 2);
  rows << 6, 8, 4, 6, 5.1F, 6.9F, 4.9F, 7.1F;
  const Pca pca = fit(rows, 2);
  EXPECT_NEAR(pca.mean[0], 5, 1e-7);
  EXPECT_NEAR(pca.mean[1], 7, 1e-7);
  EXPECT_NEAR(pca.axes(0, 0), std::sqrt(0.5), 1e-7);
  EXPECT_NEAR(pca.axes(1, 0), std::sqrt(0.5), 1e-7);
  EXPECT_NEAR(pca.explained_variance[0], 4.0 / 3, 1e-6);
  EXPECT_NEAR(pca.explained_ratio[0], 100.0 / 101, 1e-7);
  EXPECT_NEAR(pca.explained_ratio.sum(), 1, 1e-15);
}

TEST(Pca, BlocksShareOneJointMean) {
  const RowMatrixF rows = sample_rows(3, 90, 12, 0.4, 3);
  const std::vector<MatrixView> blocks{rows.topRows(13), rows.middleRows(13, 0), rows.bottomRows(77)};
  const Pca whole = fit(rows, 3);
  const Pca parts = fit_pca(blocks, 3);
  EXPECT_LE((whole.axes - parts.axes).norm(), 1e-12);
  EXPECT_LE((whole.mean - parts.mean).norm(), 1e-15);
}

TEST(Pca, CoordinatesAreLeftSingularVectorsTimesTheirValues) {
  // XV = UΣ for the centred rows: dense and by Lanczos iterations, with more rows than columns and with
  // fewer.
  for (const auto& [n, d] : {std::pair<Index, Index>{150, 40}, {40, 150}, {350, 320}, {60, 320}}) {
    const RowMatrixF rows = sample_rows(9, n, d, 0.3, 20);
    const Pca pca = fit(rows, 4);
    const MatrixXd centred = rows.cast<double>().rowwise() - rows.cast<double>().colwise().mean();
    const auto [squares, left] = all_eigenpairs(dense_gram(centred.transpose()));  // Σ² and U
    MatrixXd expected = left.leftCols(4) * squares.head(4).cwiseSqrt().asDiagonal();
    const auto found = project(pca, rows);
    for (Index k = 0; k < 4; ++k)  // the decomposition's signs are its own
      if (expected.col(k).dot(found.col(k)) < 0) expected.col(k) *= -1;
    EXPECT_LE((found - expected).norm(), 1e-9 * expected.norm()) << n << " x " << d;
    EXPECT_LE(pca.relative_residual, 1e-10);
  }
}

TEST(Pca, TurnsWithTheRows) {
  const RowMatrixF rows = sample_rows(4, 200, 8, 0, 1);
  const MatrixXd rotation = random_rotation(5, 8);
  const RowMatrixF turned = (rows.cast<double>() * rotation).cast<float>();
  const Pca before = fit(rows, 2);
  const Pca after = fit(turned, 2);
  EXPECT_LE((before.explained_ratio - after.explained_ratio).norm(), 1e-6)
      << "turned rows are rounded to float32";
  EXPECT_LE(subspace_distance(after.axes, rotation.transpose() * before.axes), 1e-5);
}

TEST(Pca, KeepsSmallSpreadFarFromTheOrigin) {
  RowMatrixF rows(3, 2);
  rows << 4096, 4096, 4096.5F, 4096, 4095.5F, 4096;
  const Pca pca = fit(rows, 2);
  EXPECT_EQ(pca.explained_variance[0], 0.25);
  EXPECT_EQ(pca.axes(0, 0), 1);
}

TEST(Pca, AxesAreOrthonormalBeyondTheRank) {
  const Pca pca = fit(sample_low_rank_rows(6, 40, 20, 2), 5);
  EXPECT_LE((pca.axes.transpose() * pca.axes - MatrixXd::Identity(5, 5)).norm(), 1e-12);
  EXPECT_NEAR(pca.explained_ratio.head(2).sum(), 1, 1e-12);
  EXPECT_GE(pca.explained_variance.minCoeff(), 0);
}

TEST(Pca, RowsWithoutVariance) {
  const RowMatrixF same = RowMatrixF::Constant(10, 4, 2.5F);
  const Pca pca = fit(same, 2);
  EXPECT_TRUE(std::isnan(pca.explained_ratio[0]));
  EXPECT_EQ(pca.explained_variance[0], 0);
  EXPECT_EQ(project(pca, same).norm(), 0);
  EXPECT_TRUE(std::isnan(fit(same.topRows(1), 1).explained_ratio[0]));
}

TEST(Pca, LargestLoadingIsPositive) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Pca pca = fit(sample_rows(seed, 30, 6), 3);
    for (Index k = 0; k < 3; ++k)
      EXPECT_EQ(pca.axes.col(k).maxCoeff(), pca.axes.col(k).cwiseAbs().maxCoeff());
  }
}

TEST(Pca, RefusesWhatHasNoAxes) {
  RowMatrixF rows = sample_rows(7, 10, 4);
  EXPECT_THROW(fit(rows, 0), InvalidInput);
  EXPECT_THROW(fit(rows, 5), InvalidInput);
  EXPECT_THROW(fit(RowMatrixF(0, 4), 1), InvalidInput);
  EXPECT_THROW(fit_pca({}, 1), InvalidInput);
  const std::vector<MatrixView> uneven{rows, rows.leftCols(3)};
  EXPECT_THROW(fit_pca(uneven, 1), InvalidInput);
  EXPECT_THROW(project(fit(rows, 1), rows.leftCols(3)), InvalidInput);
  rows(3, 3) = std::numeric_limits<float>::infinity();
  EXPECT_THROW(fit(rows, 1), InvalidInput);
}

}  // namespace

}  // namespace keyscope::analysis
