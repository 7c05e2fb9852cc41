#pragma once

#include <cstdint>

namespace keyscope::analysis {

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

}  // namespace keyscope::analysis
