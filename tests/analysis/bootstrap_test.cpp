#include "analysis/statistics.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Values = std::vector<double>;

TEST(Bootstrap, MatchesNumPyOnTheSameDraws) {
  for (const auto& golden : read_goldens("geometry_goldens.json", "bootstrap")) {
    Values samples = sample_uniform(golden["seed"].get<std::uint64_t>(), golden["n"].get<std::size_t>());
    for (double& sample : samples) sample *= sample;
    const auto found = bootstrap_mean(
        samples, {golden["n_resamples"].get<std::int64_t>(), golden["confidence"].get<double>(),
                  golden["draw_seed"].get<std::uint64_t>()});
    EXPECT_NEAR(found.mean, golden["mean"].get<double>(), 1e-15);
    EXPECT_NEAR(found.low, golden["low"].get<double>(), 1e-14);
    EXPECT_NEAR(found.high, golden["high"].get<double>(), 1e-14);
    EXPECT_EQ(found.n_samples, golden["n"].get<std::int64_t>());
  }
}

TEST(Bootstrap, OfZerosAndOnesIsBinomial) {
  // The resampled sum of 20 samples, half of them 1, is Binomial(20, 1/2): its 2.5 % and 97.5 % quantiles are
  // 6 and 14.
  Values samples(20, 0.0);
  std::fill(samples.begin(), samples.begin() + 10, 1.0);
  const auto found = bootstrap_mean(samples, {.n_resamples = 100'000, .seed = 3});
  EXPECT_EQ(found.mean, 0.5);
  EXPECT_DOUBLE_EQ(found.low, 0.3);
  EXPECT_DOUBLE_EQ(found.high, 0.7);
}

TEST(Bootstrap, WidthIsThatOfTheNormalLimit) {
  const Values samples = sample_uniform(5, 400);
  double variance = 0;
  const auto found = bootstrap_mean(samples, {.n_resamples = 20'000});
  for (const double sample : samples) variance += (sample - found.mean) * (sample - found.mean) / 400;
  EXPECT_NEAR(found.high - found.low, 2 * 1.959964 * std::sqrt(variance / 400),
              0.03 * (found.high - found.low));
}

TEST(Bootstrap, MovesAndScalesWithTheSamples) {
  const Values samples = sample_uniform(6, 30);
  Values moved = samples;
  for (double& sample : moved) sample = 4 * sample + 2;
  const auto before = bootstrap_mean(samples), after = bootstrap_mean(moved);
  EXPECT_NEAR(after.low, 4 * before.low + 2, 1e-13);
  EXPECT_NEAR(after.high, 4 * before.high + 2, 1e-13);
  EXPECT_NE(bootstrap_mean(samples, {.seed = 1}).low, before.low);
}

TEST(Bootstrap, WithoutSpreadThereIsNoInterval) {
  const auto none = bootstrap_mean({});
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.low) && std::isnan(none.high));
  EXPECT_EQ(none.n_samples, 0);
  const auto one = bootstrap_mean(Values{3});
  EXPECT_EQ(one.mean, 3);
  EXPECT_TRUE(std::isnan(one.low) && std::isnan(one.high));
  const auto same = bootstrap_mean(Values{2, 2, 2});
  EXPECT_EQ(same.low, 2);
  EXPECT_EQ(same.high, 2);
}

TEST(Bootstrap, RefusesWhatHasNoMean) {
  const Values samples{1, 2};
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(bootstrap_mean(Values{1, bad}), InvalidInput);
  EXPECT_THROW(bootstrap_mean(samples, {.n_resamples = 0}), InvalidInput);
  EXPECT_THROW(bootstrap_mean(samples, {.confidence = 1}), InvalidInput);
  EXPECT_THROW(bootstrap_mean(samples, {.confidence = 0}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
