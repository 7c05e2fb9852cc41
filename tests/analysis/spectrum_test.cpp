#include "analysis/spectrum.hpp"

#include <cmath>
#include <limits>

#include <Eigen/QR>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

TEST(Spectrum, MatchesNumPySvd) {
  for (const auto& golden : read_goldens("geometry_goldens.json", "spectrum")) {
    const RowMatrixF keys = sample_rows(golden);
    const Spectrum spectrum = measure_spectrum(keys);
    const auto expect_relative = [&](double found, double expected) {
      EXPECT_NEAR(found, expected, 1e-8 * expected) << golden.dump();
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
  const MatrixXd random = sample_rows(3, 8, 8).cast<double>();
  const MatrixXd rotation = Eigen::HouseholderQR<MatrixXd>(random).householderQ();
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
