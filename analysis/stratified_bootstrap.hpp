#pragma once

#include <span>
#include <vector>

#include "analysis/statistics.hpp"

namespace keyscope::analysis {

// The mean over strata of their means, with its percentile interval: every stratum (the prompts of one task,
// say) is resampled by itself, n of n, as bootstrap_mean does it, so that all weigh the same however many
// samples they have. One stratum gives what bootstrap_mean gives.
//   strata: none of them empty
//   returns n_samples over all; an interval of NaN unless every stratum has two samples
//   throws InvalidInput on an empty stratum, and as bootstrap_mean
//   source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), Section 8.3 (two samples)
BootstrapMean stratified_bootstrap_mean(std::span<const std::vector<double>> strata,
                                        const BootstrapOptions& options = {});

}  // namespace keyscope::analysis
