#include "analysis/clopper_pearson.hpp"

#include <numeric>
#include <string>

#include <unsupported/Eigen/SpecialFunctions>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

// The probability that a variable of Beta(a, b) is below x.
double beta_probability(double a, double b, double x) { return Eigen::numext::betainc(a, b, x); }

}  // namespace

double clopper_pearson_high(double n_hits, double n_trials, double confidence) {
  if (!(n_trials > 0) || !(n_hits >= 0) || n_hits > n_trials || !(confidence > 0 && confidence < 1))
    throw InvalidInput("Clopper-Pearson interval: " + std::to_string(n_hits) + " hits of " +
                       std::to_string(n_trials) + " trials, confidence " + std::to_string(confidence) +
                       "; expected 0 up to all of them and a confidence between 0 and 1");
  if (n_hits == n_trials) return 1;
  const double wanted = (1 + confidence) / 2;
  double low = 0, high = 1;
  for (double middle = 0.5; middle > low && middle < high; middle = std::midpoint(low, high))
    (beta_probability(n_hits + 1, n_trials - n_hits, middle) < wanted ? low : high) = middle;
  return high;
}

}  // namespace keyscope::analysis
