#include "analysis/stratified_bootstrap.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

TEST(StratifiedBootstrap, OfOneStratumIsThePlainOne) {
  const std::vector<std::vector<double>> strata{{1, 2, 4, 8, 16}};
  const BootstrapMean plain = bootstrap_mean(strata[0], {2000, 0.9, 3});
  const BootstrapMean stratified = stratified_bootstrap_mean(strata, {2000, 0.9, 3});
  EXPECT_EQ(stratified.mean, plain.mean);
  EXPECT_EQ(stratified.low, plain.low);
  EXPECT_EQ(stratified.high, plain.high);
  EXPECT_EQ(stratified.n_samples, 5);
}

TEST(StratifiedBootstrap, StrataWeighTheSame) {
  const std::vector<std::vector<double>> strata{{0, 0, 0, 0, 0, 0}, {1, 1}};
  const BootstrapMean mean = stratified_bootstrap_mean(strata);
  EXPECT_EQ(mean.mean, 0.5);
  // Nothing varies inside a stratum, so nothing does.
  EXPECT_EQ(mean.low, 0.5);
  EXPECT_EQ(mean.high, 0.5);
  EXPECT_EQ(mean.n_samples, 8);
}

// Of k independent strata with variance s² of their mean, the mean has s/√k.
TEST(StratifiedBootstrap, SpreadIsThatOfIndependentStrata) {
  std::vector<double> samples;
  for (int i = 0; i < 400; ++i) samples.push_back(i % 2);
  const double standard_error = 0.5 / 20;
  for (const std::size_t k : {1UL, 4UL, 16UL}) {
    const std::vector<std::vector<double>> strata(k, samples);
    const BootstrapMean mean = stratified_bootstrap_mean(strata, {4000, 0.95, 1});
    const double expected = 2 * 1.96 * standard_error / std::sqrt(static_cast<double>(k));
    EXPECT_NEAR((mean.high - mean.low) / expected, 1, 0.1) << k;
  }
}

TEST(StratifiedBootstrap, HasNoIntervalWhereAStratumSaysNothingOfItsSpread) {
  const std::vector<std::vector<double>> strata{{1, 3}, {5}};
  const BootstrapMean mean = stratified_bootstrap_mean(strata);
  EXPECT_EQ(mean.mean, 3.5);
  EXPECT_TRUE(std::isnan(mean.low));
  EXPECT_TRUE(std::isnan(stratified_bootstrap_mean({}).mean));
}

TEST(StratifiedBootstrap, RefusesWhatCannotBe) {
  const std::vector<std::vector<double>> empty{{1, 2}, {}};
  EXPECT_THROW(stratified_bootstrap_mean(empty), InvalidInput);
  const std::vector<std::vector<double>> infinite{{1, INFINITY}};
  EXPECT_THROW(stratified_bootstrap_mean(infinite), InvalidInput);
  const std::vector<std::vector<double>> fine{{1, 2}};
  EXPECT_THROW(stratified_bootstrap_mean(fine, {0, 0.95, 0}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
