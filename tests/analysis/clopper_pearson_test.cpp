#include "analysis/clopper_pearson.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

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
  for (double hits = 0; hits <= 20; hits += 0.125) {
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

}  // namespace
}  // namespace keyscope::analysis
