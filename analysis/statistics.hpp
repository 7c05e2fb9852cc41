#pragma once

#include <cstdint>
#include <span>

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

}  // namespace keyscope::analysis
