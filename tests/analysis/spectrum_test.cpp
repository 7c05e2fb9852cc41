#include "analysis/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <Eigen/SVD>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/dense_algebra.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

TEST(LogVolume, MatchesNumPySvd) {
  for (const auto& golden : read_goldens("analysis_goldens.json", "log_volume")) {
    const RowMatrixF keys = sample_rows(golden);
    const LogVolume volume = log_volume(keys);
    const auto expect_relative = [&](double found, double expected) {
      EXPECT_NEAR(found, expected, 1e-8 * std::abs(expected)) << json_text(golden);
    };
    EXPECT_EQ(volume.rank, golden["rank"].get<std::int64_t>()) << json_text(golden);
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
  const VectorXd eigenvalues = all_eigenpairs(dense_gram(keys.cast<double>())).values;
  EXPECT_NEAR(log_volume(keys).log_volume_nats, eigenvalues.array().log().sum(), 1e-10);
}

TEST(LogVolume, IgnoresOrderAndRotationAndFollowsScale) {
  const RowMatrixF keys = sample_rows(2, 40, 8, 0.3);
  const LogVolume volume = log_volume(keys);
  EXPECT_NEAR(log_volume(keys.colwise().reverse()).log_volume_nats, volume.log_volume_nats, 1e-12);
  const LogVolume scaled = log_volume(keys * 4);
  EXPECT_NEAR(scaled.log_volume_nats, volume.log_volume_nats + 8 * std::log(16), 1e-11);
  EXPECT_NEAR(scaled.regularised_log_volume_nats, volume.regularised_log_volume_nats, 1e-13);
  const MatrixXd rotation = random_rotation(3, 8);
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

VectorXd sorted_roots(const RowMatrixF& rows) {
  VectorXd roots = squared_singular_values(rows).cwiseMax(0).cwiseSqrt();
  std::sort(roots.begin(), roots.end(), std::greater<>());
  return roots;
}

TEST(SingularValues, MatchADirectDecomposition) {
  // Well conditioned, where the Gram matrix serves, and over ten decades, where it cannot; tall and wide.
  for (const Index halve_every : {0, 1})
    for (const auto& [n, d] : {std::pair<Index, Index>{90, 30}, {30, 90}, {30, 30}, {1, 8}, {8, 1}}) {
      const RowMatrixF rows = sample_rows(1, n, d, 0.2, halve_every);
      const VectorXd expected = Eigen::JacobiSVD<MatrixXd>(rows.cast<double>()).singularValues();
      const VectorXd found = sorted_roots(rows);
      ASSERT_EQ(found.size(), expected.size());
      for (Index i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 1e-8 * expected[i]) << n << " x " << d << ", value " << i;
    }
}

TEST(SingularValues, SumOfSquaresIsTheFrobeniusNorm) {
  const RowMatrixF rows = sample_rows(2, 300, 20, 0.4);
  EXPECT_NEAR(squared_singular_values(rows).sum(), rows.cast<double>().squaredNorm(), 1e-10);
}

TEST(SingularValues, OfZerosAreZero) { EXPECT_EQ(squared_singular_values(RowMatrixF::Zero(5, 3)).norm(), 0); }

TEST(Spectrum, MatchesNumPySvd) {
  for (const auto& golden : read_goldens("geometry_goldens.json", "spectrum")) {
    const RowMatrixF keys = sample_rows(golden);
    const Spectrum spectrum = measure_spectrum(keys);
    const auto expect_relative = [&](double found, double expected) {
      EXPECT_NEAR(found, expected, 1e-8 * expected) << json_text(golden);
    };
    expect_relative(spectrum.participation_ratio, golden["participation_ratio"].get<double>());
    expect_relative(spectrum.effective_rank, golden["effective_rank"].get<double>());
  }
}

TEST(Spectrum, WorkedByHand) {
  RowMatrixF keys = RowMatrixF::Zero(3, 4);  // σ = 2, 1, 1
  keys(0, 0) = 2;
  keys(1, 3) = keys(2, 1) = 1;
  const Spectrum spectrum = measure_spectrum(keys);
  EXPECT_NEAR(spectrum.participation_ratio, 36.0 / 18, 1e-14);
  EXPECT_NEAR(spectrum.effective_rank, std::exp(1.5 * std::log(2)), 1e-14) << "shares 1/2, 1/4, 1/4";
}

TEST(Spectrum, EqualDirectionsCountInFull) {
  for (const Index d : {1, 2, 7}) {
    const Spectrum spectrum = measure_spectrum(RowMatrixF(RowMatrixF::Identity(d, d) * 3));
    EXPECT_NEAR(spectrum.participation_ratio, static_cast<double>(d), 1e-13);
    EXPECT_NEAR(spectrum.effective_rank, static_cast<double>(d), 1e-13);
  }
}

TEST(Spectrum, LiesBetweenOneAndTheRank) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto rank = static_cast<Index>(1 + seed % 6);
    const Spectrum spectrum = measure_spectrum(sample_low_rank_rows(seed, 40, 12, rank));
    EXPECT_GE(spectrum.participation_ratio, 1 - 1e-12);
    EXPECT_LE(spectrum.effective_rank, static_cast<double>(rank) * (1 + 1e-9));
    EXPECT_LE(spectrum.participation_ratio, spectrum.effective_rank + 1e-9)
        << "the energy is never spread wider than the values themselves";
  }
}

TEST(Spectrum, IgnoresOrderRotationAndScale) {
  const RowMatrixF keys = sample_rows(2, 40, 8, 0.3);
  const Spectrum spectrum = measure_spectrum(keys);
  const MatrixXd rotation = random_rotation(3, 8);
  const RowMatrixF turned = (keys.cast<double>() * rotation).cast<float>();
  for (const auto& [changed, tolerance] : {std::pair<RowMatrixF, double>{keys.colwise().reverse(), 1e-11},
                                           {keys * 0x1p60F, 1e-11},
                                           {keys * 0x1p-90F, 1e-11},
                                           {turned, 1e-5}}) {
    const Spectrum found = measure_spectrum(changed);
    EXPECT_NEAR(found.participation_ratio, spectrum.participation_ratio, tolerance);
    EXPECT_NEAR(found.effective_rank, spectrum.effective_rank, tolerance);
  }
}

TEST(Spectrum, EdgesOfTheInput) {
  const Spectrum zero = measure_spectrum(RowMatrixF::Zero(4, 3));
  EXPECT_EQ(zero.participation_ratio, 0);
  EXPECT_EQ(zero.effective_rank, 0);
  const Spectrum constant = measure_spectrum(RowMatrixF::Constant(9, 5, -2));
  EXPECT_NEAR(constant.participation_ratio, 1, 1e-12);
  EXPECT_NEAR(constant.effective_rank, 1, 1e-12);
  EXPECT_THROW(measure_spectrum(RowMatrixF(0, 4)), InvalidInput);
  RowMatrixF keys = sample_rows(5, 10, 4);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    keys(7, 2) = bad;
    EXPECT_THROW(measure_spectrum(keys), InvalidInput);
  }
}

}  // namespace

}  // namespace keyscope::analysis
