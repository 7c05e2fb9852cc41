#include "analysis/partial_spearman.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Values = std::vector<double>;

Values positions(std::size_t n) {
  Values values(n);
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

TEST(PartialSpearman, MatchesResidualsOfRanksInNumPy) {
  for (const auto& golden : read_goldens("ranking_goldens.json", "partial_spearman")) {
    const auto n = golden["n"].get<std::size_t>();
    const auto seed = golden["seed"].get<std::uint64_t>();
    const Values z = positions(n);
    Values x = sample_uniform(seed, n);
    Values y = sample_uniform(seed + 100, n);
    for (std::size_t i = 0; i < n; ++i) {
      const double drift = golden["drift"].get<double>() * z[i] / static_cast<double>(n);
      x[i] = std::floor((x[i] + drift) * golden["levels"].get<double>());
      y[i] = std::floor((y[i] + drift) * golden["levels"].get<double>());
    }
    EXPECT_NEAR(partial_spearman(x, y, z).rho, golden["rho"].get<double>(), 1e-11) << golden.dump();
  }
}

TEST(PartialSpearman, WorkedByHand) {
  // ρxy = 0.8, ρxz = 0.4, ρyz = 0.8: (0.8 - 0.32) / √(0.84 · 0.36).
  const Values x{1, 2, 3, 4}, y{2, 1, 3, 4}, z{3, 1, 2, 4};
  EXPECT_NEAR(spearman(x, y).rho, 0.8, 1e-15);
  EXPECT_NEAR(spearman(x, z).rho, 0.4, 1e-15);
  EXPECT_NEAR(spearman(y, z).rho, 0.8, 1e-15);
  EXPECT_NEAR(partial_spearman(x, y, z).rho, 0.48 / std::sqrt(0.84 * 0.36), 1e-14);
}

TEST(PartialSpearman, EqualsTheFormulaOfThreeCorrelations) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Values x = sample_uniform(seed, 80), y = sample_uniform(seed + 50, 80), z = positions(80);
    const double xy = spearman(x, y).rho, xz = spearman(x, z).rho, yz = spearman(y, z).rho;
    const double expected = (xy - xz * yz) / std::sqrt((1 - xz * xz) * (1 - yz * yz));
    EXPECT_NEAR(partial_spearman(x, y, z).rho, expected, 1e-12);
  }
}

TEST(PartialSpearman, SeesOnlyOrderAndNoDirectionOfTheThird) {
  const Values x = sample_uniform(1, 60), y = sample_uniform(2, 60), z = sample_uniform(3, 60);
  const double rho = partial_spearman(x, y, z).rho;
  Values grown = x, falling = z;
  for (double& value : grown) value = std::exp(9 * value);
  for (double& value : falling) value = -value;
  EXPECT_EQ(partial_spearman(grown, y, z).rho, rho);
  EXPECT_NEAR(partial_spearman(x, y, falling).rho, rho, 1e-14);
  EXPECT_NEAR(partial_spearman(y, x, z).rho, rho, 1e-14);
  EXPECT_NEAR(partial_spearman(x, y, Values(60, 2.0)).rho, spearman(x, y).rho, 1e-15)
      << "a constant explains nothing";
}

TEST(PartialSpearman, TellsAnExactFitFromOneExchangedPair) {
  const std::size_t n = 4096;
  const Values z = positions(n);
  Values x = z;
  EXPECT_EQ(partial_spearman(x, sample_uniform(1, n), z).status, CorrelationStatus::kConstant);
  std::swap(x[1000], x[1001]);
  EXPECT_EQ(partial_spearman(x, sample_uniform(1, n), z).status, CorrelationStatus::kDefined);
  EXPECT_NEAR(partial_spearman(x, x, z).rho, 1, 1e-15);
}

TEST(PartialSpearman, WhatHasNoValueSaysWhy) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto expect_none = [](const Values& x, const Values& y, const Values& z, CorrelationStatus status) {
    EXPECT_TRUE(std::isnan(partial_spearman(x, y, z).rho));
    EXPECT_EQ(partial_spearman(x, y, z).status, status);
  };
  const Values up{1, 2, 3, 4}, mixed{2, 4, 1, 3};
  expect_none({}, {}, {}, CorrelationStatus::kEmpty);
  expect_none({1}, {1}, {1}, CorrelationStatus::kConstant);
  expect_none({1, 2}, {2, 1}, {1, 2}, CorrelationStatus::kConstant);
  expect_none(up, Values(4, 1.0), mixed, CorrelationStatus::kConstant);
  expect_none({10, 20, 30, 40}, mixed, up, CorrelationStatus::kConstant);
  expect_none(up, mixed, {1, 2, kNaN, 4}, CorrelationStatus::kNotANumber);
  expect_none({kNaN, 2, 3, 4}, mixed, up, CorrelationStatus::kNotANumber);
  EXPECT_EQ(partial_spearman(Values{-kInf, 1, 2, kInf}, mixed, Values{1, 3, 2, 4}).rho,
            partial_spearman(up, mixed, Values{1, 3, 2, 4}).rho);
  EXPECT_THROW(partial_spearman(up, up, Values{1}), InvalidInput);
  EXPECT_THROW(partial_spearman(up, Values{1}, up), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
