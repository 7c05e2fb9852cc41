#include "analysis/log_volume.hpp"

#include <cmath>
#include <limits>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::MatrixXd;

TEST(LogVolume, MatchesNumPySvd) {
  for (const auto& golden : read_goldens("analysis_goldens.json", "log_volume")) {
    const RowMatrixF keys = sample_rows(golden);
    const LogVolume volume = log_volume(keys);
    const auto expect_relative = [&](double found, double expected) {
      EXPECT_NEAR(found, expected, 1e-8 * std::abs(expected)) << golden.dump();
    };
    EXPECT_EQ(volume.rank, golden["rank"].get<std::int64_t>()) << golden.dump();
    expect_relative(volume.log_volume_nats, golden["log_volume_nats"].get<double>());
    expect_relative(volume.regularised_log_volume_nats, golden["regularised"].get<double>());
  }
}

TEST(LogVolume, WorkedByHand) {
  RowMatrixF keys(3, 2);
  keys << 3, 0, 0, 2, 4, 0;  // KᵀK = diag(25, 4); at unit norm I + K̂ᵀK̂ = diag(3, 2)
  const LogVolume volume = log_volume(keys);
  EXPECT_NEAR(volume.log_volume_nats, std::log(100), 1e-14);
  EXPECT_EQ(volume.rank, 2);
  EXPECT_NEAR(volume.threshold, 5e-6, 1e-18);
  EXPECT_NEAR(volume.regularised_log_volume_nats, std::log(6), 1e-14);
}

TEST(LogVolume, IsTheSumOfLogEigenvalues) {
  const RowMatrixF keys = sample_rows(1, 100, 16, 0.2);
  const MatrixXd wide = keys.cast<double>();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(wide.transpose() * wide);
  EXPECT_NEAR(log_volume(keys).log_volume_nats, solver.eigenvalues().array().log().sum(), 1e-10);
}

TEST(LogVolume, IgnoresOrderAndRotationAndFollowsScale) {
  const RowMatrixF keys = sample_rows(2, 40, 8, 0.3);
  const LogVolume volume = log_volume(keys);
  EXPECT_NEAR(log_volume(keys.colwise().reverse()).log_volume_nats, volume.log_volume_nats, 1e-12);
  const LogVolume scaled = log_volume(keys * 4);
  EXPECT_NEAR(scaled.log_volume_nats, volume.log_volume_nats + 8 * std::log(16), 1e-11);
  EXPECT_NEAR(scaled.regularised_log_volume_nats, volume.regularised_log_volume_nats, 1e-13);
  const MatrixXd random = sample_rows(3, 8, 8).cast<double>();
  const MatrixXd rotation = Eigen::HouseholderQR<MatrixXd>(random).householderQ();
  const RowMatrixF turned = (keys.cast<double>() * rotation).cast<float>();
  EXPECT_NEAR(log_volume(turned).log_volume_nats, volume.log_volume_nats, 1e-5);
}

TEST(LogVolume, CountsSingularValuesAboveTheThreshold) {
  RowMatrixF keys = RowMatrixF::Zero(3, 3);
  keys.diagonal() << 1, 1.01e-6F, 0.99e-6F;
  const LogVolume volume = log_volume(keys);
  EXPECT_EQ(volume.rank, 2);
  EXPECT_NEAR(volume.log_volume_nats, 2 * std::log(static_cast<double>(1.01e-6F)), 1e-9);
}

TEST(LogVolume, DuplicatesAddNoRank) {
  RowMatrixF keys(6, 4);
  keys << sample_rows(4, 3, 4), sample_rows(4, 3, 4);
  const LogVolume twice = log_volume(keys);
  EXPECT_EQ(twice.rank, 3);
  EXPECT_NEAR(twice.log_volume_nats, log_volume(keys.topRows(3)).log_volume_nats + 3 * std::log(2), 1e-10);
}

TEST(LogVolume, ReachesTheEndsOfFloat32) {
  for (const float scale : {1e-38F, 1e37F}) {
    const LogVolume volume = log_volume(RowMatrixF(RowMatrixF::Identity(5, 5) * scale));
    EXPECT_EQ(volume.rank, 5);
    EXPECT_NEAR(volume.log_volume_nats, 10 * std::log(static_cast<double>(scale)), 1e-9);
  }
}

TEST(LogVolume, ZeroKeysSpanNothing) {
  const LogVolume volume = log_volume(RowMatrixF(RowMatrixF::Zero(4, 3)));
  EXPECT_EQ(volume.rank, 0);
  EXPECT_EQ(volume.log_volume_nats, 0);
  EXPECT_EQ(volume.regularised_log_volume_nats, 0);
}

TEST(LogVolume, RefusesWhatHasNoVolume) {
  EXPECT_THROW(log_volume(RowMatrixF(0, 4)), InvalidInput);
  RowMatrixF keys = sample_rows(5, 10, 4);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    keys(7, 2) = bad;
    EXPECT_THROW(log_volume(keys), InvalidInput);
  }
}

}  // namespace
}  // namespace keyscope::analysis
