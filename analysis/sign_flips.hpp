#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace keyscope::analysis {

// One of several comparisons that are judged together: what every example has more under the one side than
// under the other.
struct PairedComparison {
  std::size_t set = 0;              // comparisons of one set are of the same examples, in the same order
  std::vector<double> differences;  // by example
};

struct SignFlipTest {
  double p = 1;           // of this comparison alone
  double adjusted_p = 1;  // of this one among all of them: never smaller
};

struct SignFlipOptions {
  std::int64_t n_resamples = 10'000;
  std::uint64_t seed = 0;
};

// Whether sides differ, two-sided, by flipping signs: where they do not, an example's differences might as
// well have come with the other sign. The statistic is |Σ d| / √(Σ d²), whose denominator no flip changes;
// where no example differs p is 1. A resample flips all comparisons of an example together, so that what they
// have in common (the base that they are compared with, the example itself) stays in them.
//
// The adjusted values control the family-wise error, that any difference is claimed where there is none, by
// the step-down maximum: the k-th largest statistic is held against the largest of those that are not before
// it, of every resample. As all resamples know of the comparisons' dependence, it rejects no less than Holm's
// procedure, and more where comparisons go together. p is (1 + as extreme ones) / (1 + resamples).
//
//   differences: finite; within a set all of one length; n_resamples >= 1
//   returns a test for each comparison, in their order; the same on every platform
//   throws InvalidInput otherwise
//   source: Westfall and Young, Resampling-Based Multiple Testing (1993), Algorithm 4.1; Romano and Wolf,
//   Exact and Approximate Stepdown Methods for Multiple Hypothesis Testing (JASA 100, 2005); p: Phipson and
//   Smyth, Permutation P-values Should Never Be Zero (2010)
std::vector<SignFlipTest> sign_flip_tests(std::span<const PairedComparison> comparisons,
                                          const SignFlipOptions& options = {});

}  // namespace keyscope::analysis
