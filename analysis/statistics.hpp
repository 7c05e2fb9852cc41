#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

struct BootstrapOptions {
  std::int64_t n_resamples = 10'000;
  double confidence = 0.95;
  std::uint64_t seed = 0;
};

// A mean with its interval, and how much it rests on.
struct BootstrapMean {
  double mean = 0;  // NaN without samples
  double low = 0;   // the interval's ends; NaN for fewer than two samples, which say nothing of their spread
  double high = 0;
  std::int64_t n_samples = 0;
};

// Percentile interval of the mean over prompts: the samples are drawn again with replacement, n of n, and the
// (1 - confidence)/2 and (1 + confidence)/2 quantiles of the resampled means are its ends. Draw i of resample
// r takes sample floor(u · n), u the (r·n + i)-th number of SplitMix64's stream from the seed, 53 bits: the
// same on every platform, and no draw favoured by more than n · 2^-53.
//   samples: finite; n_resamples >= 1; 0 < confidence < 1
//   throws InvalidInput otherwise
//   source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), Section 13.3
BootstrapMean bootstrap_mean(std::span<const double> samples, const BootstrapOptions& options = {});

// The mean over strata of their means, with its percentile interval: every stratum (the prompts of one task,
// say) is resampled by itself, n of n, as bootstrap_mean does it, so that all weigh the same however many
// samples they have. One stratum gives what bootstrap_mean gives.
//   strata: none of them empty
//   returns n_samples over all; an interval of NaN unless every stratum has two samples
//   throws InvalidInput on an empty stratum, and as bootstrap_mean
//   source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), Section 8.3 (two samples)
BootstrapMean stratified_bootstrap_mean(std::span<const std::vector<double>> strata,
                                        const BootstrapOptions& options = {});

// The ratio of two such means over the same samples, with its percentile interval: every resample draws the
// same samples for both.
//   numerators, denominators: of the same shape, none of their strata empty
//   returns a ratio of NaN where the denominators' mean is 0; an interval of NaN also where that of any
//   resample is
//   throws InvalidInput on other shapes, and as stratified_bootstrap_mean
BootstrapMean stratified_bootstrap_ratio(std::span<const std::vector<double>> numerators,
                                         std::span<const std::vector<double>> denominators,
                                         const BootstrapOptions& options = {});

// A share with its interval.
struct WilsonShare {
  double share = 0;  // NaN without trials
  double low = 0;    // the interval's ends; 0 and 1 without trials
  double high = 1;
};

// The score interval of a share, at 95 %: the shares p for which n_hits of n_trials lie within 1.96 standard
// deviations √(p (1 - p) / n). Says something for any number of trials, also where all of them hit.
//   0 <= n_hits <= n_trials
//   throws InvalidInput otherwise
//   source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference (JASA 22, 1927)
WilsonShare wilson_share(std::int64_t n_hits, std::int64_t n_trials);

// The upper end of the exact two-sided interval of a share: the share under which n trials would bring
// n_hits or fewer with a probability of (1 - confidence)/2. It is the (1 + confidence)/2 quantile of
// Beta(n_hits + 1, n_trials - n_hits), which is defined between whole numbers too, and rises with n_hits; 1
// where all of them hit.
//   0 <= n_hits <= n_trials, n_trials > 0, 0 < confidence < 1
//   throws InvalidInput otherwise
//   source: Clopper and Pearson, The Use of Confidence or Fiducial Limits (Biometrika 26, 1934)
double clopper_pearson_high(double n_hits, double n_trials, double confidence);

// Quantiles by linear interpolation between order statistics: the one for p lies at (n - 1) p of the n sorted
// values, counted from 0. NaN for no values.
//   values: not NaN; probabilities: within [0, 1]; result: one per probability
//   throws InvalidInput otherwise
//   source: Hyndman and Fan, Am. Stat. 50 (1996), definition 7: NumPy's default
std::vector<double> quantiles(std::span<const double> values, std::span<const double> probabilities);

// How numbers are spread; NaN where there are none.
struct Percentiles {
  double p05 = std::numeric_limits<double>::quiet_NaN();
  double median = std::numeric_limits<double>::quiet_NaN();
  double p95 = std::numeric_limits<double>::quiet_NaN();
};

// Of the values that are finite; others are left out.
Percentiles percentiles_of(std::span<const double> values);

// A median with its interval, and how much it rests on.
struct MedianInterval {
  double median = 0;  // of an even number the mean of the two in the middle; NaN without samples
  double low = 0;     // the interval's ends; NaN where so few samples have none of that confidence
  double high = 0;
  double coverage = 0;  // how often such an interval has the true median in it, at least
  std::int64_t n_samples = 0;
};

// The exact interval of a median, whatever the distribution: from the k-th smallest to the k-th largest of n
// independent samples. It misses the true median where fewer than k of them lie on one side of it, so that it
// covers it with a probability of 1 - 2 P(X < k), X of Binomial(n, 1/2), or more where samples tie. k is the
// largest for which that is the confidence or more: at 95 %, samples from 6 on have an interval, the whole
// range of 6 to 8 of them.
//   samples: finite; 0 < confidence < 1
//   throws InvalidInput otherwise
//   source: David and Nagaraja, Order Statistics (2003), Section 7.1
MedianInterval median_interval(std::span<const double> samples, double confidence = 0.95);

// How unequally non-negative amounts are spread over their positions. Both are NaN where there are none, or
// where all of them are zero.
//   throws InvalidInput on an amount that is negative or not finite

// Gini coefficient Σ_i (2i - n - 1) x_(i) / (n Σ x), amounts ascending, i from 1: 0 where all are equal,
// 1 - 1/n where one has everything.
double gini(std::span<const double> amounts);

// Share of the sum that the largest ceil(fraction · n) amounts have.
//   throws InvalidInput where the fraction is not in (0, 1]
double top_share(std::span<const double> amounts, double fraction);

// How far next-token predictions moved away from reference ones. Means over the rows.
struct LogitDivergence {
  double kl_nats = 0;         // KL(reference || other) of the softmaxes
  double top1_agreement = 0;  // share of rows whose largest logit is the same token; the first of equal ones
};

// reference, other: (n_positions, vocab) logits, at least one row; -inf is a token that cannot come
//   throws InvalidInput on sizes that do not match, no rows, a NaN or +inf, or a row of -inf alone
LogitDivergence logit_divergence(const MatrixView& reference, const MatrixView& other);

}  // namespace keyscope::analysis
