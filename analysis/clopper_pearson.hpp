#pragma once

namespace keyscope::analysis {

// The upper end of the exact two-sided interval of a share: the share under which n trials would bring
// n_hits or fewer with a probability of (1 - confidence)/2. It is the (1 + confidence)/2 quantile of
// Beta(n_hits + 1, n_trials - n_hits), which is defined between whole numbers too, and rises with n_hits; 1
// where all of them hit.
//   0 <= n_hits <= n_trials, n_trials > 0, 0 < confidence < 1
//   throws InvalidInput otherwise
//   source: Clopper and Pearson, The Use of Confidence or Fiducial Limits (Biometrika 26, 1934)
double clopper_pearson_high(double n_hits, double n_trials, double confidence);

}  // namespace keyscope::analysis
