#include "analysis/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

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

TEST(Splitmix, GivesThePublishedStream) {
  // The first outputs for seed 1234567 that implementations are commonly checked against.
  const std::uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u};
  for (std::uint64_t t = 0; t < 3; ++t) EXPECT_EQ(splitmix(1234567 + t * kSplitmixStep), expected[t]);
}

TEST(Splitmix, NumbersLieInTheUnitInterval) {
  EXPECT_EQ(unit_interval(0), 0);
  EXPECT_LT(unit_interval(~std::uint64_t{0}), 1);
  const auto numbers = sample_uniform(9, 50);
  for (std::uint64_t t = 0; t < 50; ++t)
    EXPECT_EQ(unit_interval(splitmix(9 + t * kSplitmixStep)), numbers[t]);
}

double binomial_below(int n_hits, int n_trials, double p) {
  double sum = 0;
  for (int k = 0; k <= n_hits; ++k)
    sum += std::exp(std::lgamma(n_trials + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n_trials - k + 1.0) +
                    k * std::log(p) + (n_trials - k) * std::log1p(-p));
  return sum;
}

// So many hits or fewer come with a probability of 2.5 %.
TEST(ClopperPearson, SolvesTheBinomialTail) {
  for (const int n : {1, 2, 20, 160, 200, 5000})
    for (const int hits : {0, n / 3, n / 2, n - 1})
      EXPECT_NEAR(binomial_below(hits, n, clopper_pearson_high(hits, n, 0.95)), 0.025, 1e-10)
          << hits << " of " << n;
}

TEST(ClopperPearson, OfOneInTwoHundred) {
  EXPECT_NEAR(clopper_pearson_high(1, 200, 0.95), 0.0275, 5e-5);
  EXPECT_NEAR(clopper_pearson_high(0, 200, 0.95), 1 - std::pow(0.025, 1.0 / 200), 1e-14);
  EXPECT_EQ(clopper_pearson_high(200, 200, 0.95), 1);
}

TEST(ClopperPearson, RisesBetweenWholeNumbers) {
  double before = 0;
  for (int eighths = 0; eighths <= 160; ++eighths) {
    const double hits = eighths / 8.0;
    const double high = clopper_pearson_high(hits, 20, 0.95);
    EXPECT_GT(high, before) << hits;
    before = high;
  }
}

TEST(ClopperPearson, RefusesWhatIsNoShare) {
  EXPECT_THROW(clopper_pearson_high(-1, 5, 0.95), InvalidInput);
  EXPECT_THROW(clopper_pearson_high(6, 5, 0.95), InvalidInput);
  EXPECT_THROW(clopper_pearson_high(0, 0, 0.95), InvalidInput);
  EXPECT_THROW(clopper_pearson_high(0, 5, 1), InvalidInput);
}

// Half the mean absolute difference of all pairs, relative to the mean: the definition, in O(n²).
double gini_by_pairs(const std::vector<double>& amounts) {
  double differences = 0, sum = 0;
  for (const double a : amounts) {
    sum += a;
    for (const double b : amounts) differences += std::abs(a - b);
  }
  return differences / (2 * static_cast<double>(amounts.size()) * sum);
}

TEST(Gini, IsZeroForEqualAmountsAndNearOneForASingleOne) {
  EXPECT_NEAR(gini(std::vector<double>(7, 3.0)), 0, 1e-15);
  std::vector<double> one(100);
  one[42] = 5;
  EXPECT_NEAR(gini(one), 0.99, 1e-15);
  EXPECT_EQ(gini(std::vector<double>{2}), 0);
}

TEST(Gini, IsTheMeanDifferenceOfAllPairs) {
  std::vector<double> amounts;
  for (int i = 0; i < 53; ++i) {
    amounts.push_back(std::fmod(7.3 * i * i, 11));
    if (i > 0) {
      EXPECT_NEAR(gini(amounts), gini_by_pairs(amounts), 1e-13) << i;
    }
  }
}

TEST(TopShare, CountsPositionsUpwards) {
  std::vector<double> amounts(250, 1);
  amounts[3] = 50;
  amounts[200] = 40;
  EXPECT_DOUBLE_EQ(top_share(amounts, 0.01), (50 + 40 + 1) / 338.0);  // the third of ceil(2.5)
  EXPECT_DOUBLE_EQ(top_share(amounts, 1), 1);
  EXPECT_DOUBLE_EQ(top_share(std::vector<double>{4}, 0.01), 1);
}

TEST(Concentration, OfNothingDoesNotExist) {
  for (const auto& nothing : {std::vector<double>(), std::vector<double>(5)}) {
    EXPECT_TRUE(std::isnan(gini(nothing)));
    EXPECT_TRUE(std::isnan(top_share(nothing, 0.01)));
  }
}

TEST(Concentration, RefusesWhatIsNoAmount) {
  for (const double bad :
       {-1e-9, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(gini(std::vector<double>{1, bad}), InvalidInput);
    EXPECT_THROW(top_share(std::vector<double>{1, bad}, 0.5), InvalidInput);
  }
  for (const double fraction : {0.0, -0.1, 1.1})
    EXPECT_THROW(top_share(std::vector<double>{1, 2}, fraction), InvalidInput);
}

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(LogitDivergence, MatchesSciPy) {
  const auto golden = read_goldens("analysis_goldens.json", "logits");
  const RowMatrixD reference = sample_rows(71, 12, 500).cast<double>() * 16;
  const RowMatrixD other = reference + sample_rows(72, 12, 500).cast<double>() * 4;
  const auto divergence = logit_divergence(reference.cast<float>(), other.cast<float>());
  EXPECT_NEAR(divergence.kl_nats, golden["kl_nats"].get<double>(), 1e-12);
  EXPECT_DOUBLE_EQ(divergence.top1_agreement, golden["top1_agreement"].get<double>());
}

TEST(LogitDivergence, WorkedByHand) {
  RowMatrixF reference(2, 2), other(2, 2);
  reference << 0, 0, 5, 5 + std::log(3.0F);
  other << std::log(3.0F), 0, 5, 5 + std::log(3.0F);
  const auto divergence = logit_divergence(reference, other);
  EXPECT_NEAR(divergence.kl_nats, (0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25)) / 2, 1e-7);
  EXPECT_EQ(divergence.top1_agreement, 1) << "of equal logits the first counts";
}

TEST(LogitDivergence, IsZeroAgainstItselfAndFreeOfShifts) {
  const RowMatrixF logits = sample_rows(1, 5, 50) * 1000;
  EXPECT_EQ(logit_divergence(logits, logits).kl_nats, 0);
  const RowMatrixF shifted = logits.array() + 4096;
  EXPECT_NEAR(logit_divergence(logits, shifted).kl_nats, 0, 1e-2);
}

TEST(LogitDivergence, TokensThatCannotCome) {
  RowMatrixF reference(1, 3), other(1, 3);
  reference << 0, 0, -kInf;
  other << 0, 0, 0;
  EXPECT_NEAR(logit_divergence(reference, other).kl_nats, std::log(1.5), 1e-15);
  EXPECT_EQ(logit_divergence(reference, reference).kl_nats, 0);
  EXPECT_EQ(logit_divergence(other, reference).kl_nats, std::numeric_limits<double>::infinity());
}

TEST(LogitDivergence, RefusesWhatPredictsNothing) {
  const RowMatrixF logits = sample_rows(2, 2, 3);
  RowMatrixF bad = logits;
  EXPECT_THROW(logit_divergence(logits, logits.topRows(1)), InvalidInput);
  EXPECT_THROW(logit_divergence(RowMatrixF(0, 3), RowMatrixF(0, 3)), InvalidInput);
  bad(1, 1) = kInf;
  EXPECT_THROW(logit_divergence(logits, bad), InvalidInput);
  bad.row(1).setConstant(-kInf);
  EXPECT_THROW(logit_divergence(logits, bad), InvalidInput);
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Quantiles, InterpolateBetweenSortedValues) {
  EXPECT_EQ(quantiles(Values{40, 10, 20, 30}, Values{0, 0.5, 1, 0.25}), (Values{10, 25, 40, 17.5}));
  EXPECT_EQ(quantiles(Values{7}, Values{0, 0.3, 1}), (Values{7, 7, 7}));
}

TEST(Quantiles, TakeInfinitiesAsExtremes) {
  EXPECT_EQ(quantiles(Values{kInf, 1, -kInf, kInf}, Values{0, 1.0 / 3, 1}), (Values{-kInf, 1, kInf}));
}

TEST(Quantiles, OfNothingAreNotNumbers) {
  const Values none = quantiles(Values{}, Values{0, 1});
  ASSERT_EQ(none.size(), 2U);
  EXPECT_TRUE(std::isnan(none[0]) && std::isnan(none[1]));
  EXPECT_TRUE(quantiles(Values{1, 2}, Values{}).empty());
}

TEST(Quantiles, RefuseWhatHasNoOrder) {
  EXPECT_THROW(quantiles(Values{1, kNaN}, Values{0.5}), InvalidInput);
  for (const double p : {-0.1, 1.1, kNaN}) EXPECT_THROW(quantiles(Values{1}, Values{p}), InvalidInput);
}

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

// A share of a whole that varies: the same samples are drawn for both.
TEST(BootstrapRatio, DrawsTheSameSamplesForBoth) {
  const std::vector<std::vector<double>> whole{{4, 8, 12, 20}, {2, 6, 40}};
  std::vector<std::vector<double>> quarter = whole;
  for (auto& samples : quarter)
    for (double& sample : samples) sample /= 4;
  const BootstrapMean ratio = stratified_bootstrap_ratio(quarter, whole, {2000, 0.95, 9});
  EXPECT_EQ(ratio.mean, 0.25);
  EXPECT_DOUBLE_EQ(ratio.low, 0.25);
  EXPECT_DOUBLE_EQ(ratio.high, 0.25);
  EXPECT_EQ(ratio.n_samples, 7);
}

// Each resample by itself, as bootstrap_mean says that samples are drawn.
TEST(BootstrapRatio, IsTheRatioOfEveryResamplesMeans) {
  const std::vector<double> above{1, 5, 2, 8, 3, 1}, below{4, 6, 5, 9, 3, 2};
  const BootstrapOptions options{500, 0.9, 21};
  std::vector<double> ratios;
  for (std::uint64_t r = 0; r < 500; ++r) {
    double sum_above = 0, sum_below = 0;
    for (std::uint64_t i = 0; i < 6; ++i) {
      const double u = unit_interval(splitmix(options.seed + (r * 6 + i) * kSplitmixStep));
      sum_above += above[static_cast<std::size_t>(u * 6)];
      sum_below += below[static_cast<std::size_t>(u * 6)];
    }
    ratios.push_back(sum_above / sum_below);
  }
  const std::vector<double> ends = quantiles(ratios, std::vector{0.05, 0.95});
  const BootstrapMean ratio = stratified_bootstrap_ratio(std::vector<std::vector<double>>{above},
                                                         std::vector<std::vector<double>>{below}, options);
  EXPECT_DOUBLE_EQ(ratio.mean, 20.0 / 29);
  EXPECT_NEAR(ratio.low, ends[0], 1e-12);
  EXPECT_NEAR(ratio.high, ends[1], 1e-12);
}

TEST(BootstrapRatio, OfNothingDoesNotExist) {
  const std::vector<std::vector<double>> some{{1, 2, 3}}, none{{0, 0, 0}}, mixed{{1, 0, 0}}, fewer{{1, 2}};
  EXPECT_TRUE(std::isnan(stratified_bootstrap_ratio(some, none).mean));
  EXPECT_EQ(stratified_bootstrap_ratio(some, mixed).mean, 6);
  EXPECT_TRUE(std::isnan(stratified_bootstrap_ratio(some, mixed).low)) << "a resample may be all zeros";
  EXPECT_THROW(stratified_bootstrap_ratio(some, fewer), InvalidInput);
}

// The ends are the shares of which the hits are 1.96 standard deviations away: (s - p)² = z² p (1 - p) / n.
// Of all 2^n ways in which n samples can lie on the two sides of the true median, those that leave it between
// the k-th smallest and the k-th largest.
double coverage_by_counting(int n, int k) {
  std::int64_t covering = 0;
  for (std::uint32_t sides = 0; sides < (1U << static_cast<unsigned>(n)); ++sides) {
    const int below = std::popcount(sides);
    covering += below >= k && n - below >= k ? 1 : 0;
  }
  return static_cast<double>(covering) / std::exp2(n);
}

TEST(MedianInterval, IsTheNarrowestThatCoversOftenEnough) {
  for (int n = 1; n <= 16; ++n) {
    Values samples;
    for (int i = 1; i <= n; ++i) samples.push_back((i * 5) % 17);  // all different
    Values sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    int k = 0;
    while (2 * (k + 1) <= n && coverage_by_counting(n, k + 1) >= 0.95) ++k;
    const MedianInterval found = median_interval(samples);
    EXPECT_EQ(found.n_samples, n);
    if (k == 0) {
      EXPECT_TRUE(std::isnan(found.low) && std::isnan(found.high)) << n;
      EXPECT_EQ(found.coverage, 0) << n;
      continue;
    }
    EXPECT_EQ(found.low, sorted[k - 1]) << n;
    EXPECT_EQ(found.high, sorted[n - k]) << n;
    EXPECT_NEAR(found.coverage, coverage_by_counting(n, k), 1e-12) << n;
  }
}

TEST(MedianInterval, SixSamplesAreTheFewest) {
  EXPECT_TRUE(std::isnan(median_interval(Values{1, 2, 3, 4, 5}).low));
  const MedianInterval six = median_interval(Values{6, 5, 4, 3, 2, 1});
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.median, 3.5);
  EXPECT_EQ(six.high, 6);
  EXPECT_DOUBLE_EQ(six.coverage, 0.96875);
  EXPECT_FALSE(std::isnan(median_interval(Values{1, 2, 3, 4, 5}, 0.9).low));
}

// The normal limit: ranks n/2 ± 1.96 √n/2.
TEST(MedianInterval, OfManySamplesHasRanksOfTheNormalLimit) {
  Values samples(10'000);
  std::iota(samples.begin(), samples.end(), 1.0);
  const MedianInterval found = median_interval(samples);
  EXPECT_NEAR(found.low, 5000 - 98, 2);
  EXPECT_NEAR(found.high, 5001 + 98, 2);
  EXPECT_NEAR(found.coverage, 0.95, 0.002);
}

TEST(MedianInterval, OfNothingIsNothingAndNaNIsRefused) {
  EXPECT_TRUE(std::isnan(median_interval({}).median));
  EXPECT_THROW(median_interval(Values{1, std::nan("")}), InvalidInput);
  EXPECT_THROW(median_interval(Values{1, 2}, 1), InvalidInput);
}

TEST(Wilson, EndsSolveTheirEquation) {
  const double z = 1.959963984540054;
  for (const auto& [hits, n] : {std::pair{8, 10}, {1, 3}, {50, 400}, {0, 7}, {7, 7}}) {
    const WilsonShare share = wilson_share(hits, n);
    EXPECT_DOUBLE_EQ(share.share, static_cast<double>(hits) / n);
    for (const double end : {share.low, share.high}) {
      if (end == 0 || end == 1) continue;
      EXPECT_NEAR(std::pow(share.share - end, 2), z * z * end * (1 - end) / n, 1e-14);
    }
    EXPECT_LE(share.low, share.share);
    EXPECT_GE(share.high, share.share);
  }
}

TEST(Wilson, AllOrNoneStillLeaveAnInterval) {
  EXPECT_NEAR(wilson_share(10, 10).low, 0.7224672, 1e-7);
  EXPECT_NEAR(wilson_share(0, 10).high, 0.2775328, 1e-7);
  EXPECT_NEAR(wilson_share(10, 10).high, 1, 1e-15);
}

TEST(Wilson, WithoutTrialsNothingIsKnown) {
  EXPECT_TRUE(std::isnan(wilson_share(0, 0).share));
  EXPECT_EQ(wilson_share(0, 0).low, 0);
  EXPECT_EQ(wilson_share(0, 0).high, 1);
}

TEST(Wilson, MoreHitsThanTrialsAreRefused) {
  EXPECT_THROW(wilson_share(4, 3), InvalidInput);
  EXPECT_THROW(wilson_share(-1, 3), InvalidInput);
}

TEST(Percentiles, LeaveOutWhatIsNotFinite) {
  Values values{std::nan(""), kInf, -kInf};
  EXPECT_TRUE(std::isnan(percentiles_of(values).median));
  EXPECT_TRUE(std::isnan(percentiles_of({}).p05));
  for (int i = 0; i <= 40; ++i) values.push_back(i);
  const Percentiles at = percentiles_of(values);
  EXPECT_DOUBLE_EQ(at.p05, 2);
  EXPECT_DOUBLE_EQ(at.median, 20);
  EXPECT_DOUBLE_EQ(at.p95, 38);
}

}  // namespace

}  // namespace keyscope::analysis
