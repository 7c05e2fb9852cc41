#include "app/figures/keyspace_data.hpp"

#include <cmath>

#include <Eigen/Eigenvalues>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

// Two keys at (±2, 0), two queries at (0, ±1): the axes are x and y, the variances 8 and 2 of 10.
FakeRecording cross() {
  FakeRecording recording(1, 1, 1, 2, 2, 2);
  recording.add_run("none", 0);
  recording.keys_of(0, 0, 0) << 2, 0, -2, 0;
  recording.queries_of(0, 0, 0) << 0, 1, 0, -1;
  return recording;
}

TEST(KeyspaceBasis, KeysAndQueriesShareOneMeanAndAxes) {
  const KeyspaceBasis basis = fit_keyspace_basis(cross(), 0, 0);
  EXPECT_TRUE(basis.with_queries);
  EXPECT_NEAR(basis.mean.norm(), 0, 1e-15);
  EXPECT_NEAR(std::abs(basis.axes(0, 0)), 1, 1e-12);
  EXPECT_NEAR(std::abs(basis.axes(1, 1)), 1, 1e-12);
  EXPECT_NEAR(basis.explained[0], 0.8, 1e-12);
  EXPECT_NEAR(basis.explained[1], 0.2, 1e-12);
  EXPECT_EQ(basis.axes.col(2).norm(), 0) << "two coordinates have no third axis";
  EXPECT_TRUE(std::isnan(basis.explained[2]));
  EXPECT_EQ(component_label(basis, 0), "PC 1 (80.0 %)");
  EXPECT_EQ(component_label(basis, 2), "PC 3");
}

TEST(KeyspaceBasis, WithoutQueriesTheKeysAreAllVariance) {
  FakeRecording recording = cross();
  recording.edit_info().queries = false;
  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 0);
  EXPECT_FALSE(basis.with_queries);
  EXPECT_NEAR(basis.explained[0], 1, 1e-12);
}

TEST(KeyspaceBasis, IsThatOfTheNoneRunWhereverItStands) {
  FakeRecording recording(1, 2, 1, 4, 60, 10);
  recording.add_run("sink", 8);
  recording.add_run("none", 0);
  recording.fill(5);
  recording.keys_of(0, 0, 0) *= 7;
  EXPECT_EQ(fit_keyspace_basis(recording, 0, 0).run, 1);
}

TEST(KeyspaceBasis, ASketchOfFewTokensIsTheWhole) {
  FakeRecording recording(1, 4, 2, 6, 30, 16);
  recording.add_run("none", 0);
  recording.fill(4);
  const KeyspaceBasis whole = fit_keyspace_basis(recording, 0, 1),
                      sketch = sketch_keyspace_basis(recording, 0, 1);
  EXPECT_LT((sketch.mean - whole.mean).norm(), 1e-12);
  for (int axis = 0; axis < 3; ++axis)
    EXPECT_NEAR(std::abs(sketch.axes.col(axis).dot(whole.axes.col(axis))), 1, 1e-9);
}

TEST(KeyspaceBasis, ASketchOfManyTokensIsNear) {
  FakeRecording recording(1, 2, 1, 6, 20000, 16);
  recording.add_run("none", 0);
  recording.fill(4);
  for (Eigen::Index column = 0; column < 6; ++column) {  // variances that differ
    recording.keys_of(0, 0, 0).col(column) *= static_cast<float>(6 - column);
    for (int head : {0, 1}) recording.queries_of(0, 0, head).col(column) *= static_cast<float>(6 - column);
  }
  const KeyspaceBasis whole = fit_keyspace_basis(recording, 0, 0),
                      sketch = sketch_keyspace_basis(recording, 0, 0);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto column = static_cast<Eigen::Index>(axis);
    EXPECT_GT(std::abs(sketch.axes.col(column).dot(whole.axes.col(column))), 0.95) << "axis " << axis;
    EXPECT_NEAR(sketch.explained[axis], whole.explained[axis], 0.05) << "axis " << axis;
  }
}

// The covariance's eigenvectors, written out: (n - 1) C = Σ (r - mean)(r - mean)ᵀ over keys and the group's
// queries.
TEST(KeyspaceBasis, AgreesWithTheCovarianceWrittenOut) {
  FakeRecording recording(1, 4, 2, 6, 50, 16);
  recording.add_run("none", 0);
  recording.fill(3);
  RowMatrixD rows(150, 6);
  rows << recording.keys_of(0, 0, 1).cast<double>(), recording.queries_of(0, 0, 2).cast<double>(),
      recording.queries_of(0, 0, 3).cast<double>();
  const Eigen::RowVectorXd mean = rows.colwise().mean();
  const RowMatrixD centred = rows.rowwise() - mean;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(centred.transpose() * centred);

  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 1);
  const RowMatrixF coordinates = project_rows(basis, recording.keys_of(0, 0, 1), 3);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(basis.explained[c], solver.eigenvalues()[5 - c] / solver.eigenvalues().sum(), 1e-12);
    const Eigen::VectorXd expected = centred.topRows(50) * solver.eigenvectors().col(5 - c);
    const double sign = expected.dot(coordinates.col(c).cast<double>()) < 0 ? -1 : 1;
    EXPECT_LT((sign * expected - coordinates.col(c).cast<double>()).cwiseAbs().maxCoeff(), 1e-5);
  }
}

TEST(KeyspaceBasis, OverNoTokensIsZero) {
  FakeRecording recording(1, 1, 1, 2, 2, 2);
  recording.add_run("none", 0);
  recording.edit_info().runs[0].n_tokens = 0;
  recording.edit_info().runs[0].blocks_done = 0;
  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 0);
  EXPECT_EQ(basis.axes.norm(), 0);
  EXPECT_EQ(component_label(basis, 0), "PC 1");
}

TEST(KeyspaceBasis, RefusesWhatIsNotThere) {
  FakeRecording recording = cross();
  EXPECT_THROW(fit_keyspace_basis(recording, 1, 0), UsageError);
  EXPECT_THROW(fit_keyspace_basis(recording, 0, 1), UsageError);
  EXPECT_THROW(fit_keyspace_basis(recording, 0, -1), UsageError);
  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 0);
  EXPECT_THROW(project_rows(basis, RowMatrixF::Zero(1, 3), 2), InvalidInput);
  EXPECT_THROW(project_rows(basis, RowMatrixF::Zero(1, 2), 4), InvalidInput);
  recording.edit_info().keys = false;
  EXPECT_THROW(fit_keyspace_basis(recording, 0, 0), FileError);
}

}  // namespace
}  // namespace keyscope::figures
