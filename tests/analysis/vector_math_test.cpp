#include "analysis/vector_math.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope::analysis {
namespace {

constexpr double kTolerance = 5e-16;

// Lengths that end within a vector, and none at all.
constexpr std::size_t kLengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 1001};

TEST(Exponentials, AreThoseOfTheLibrary) {
  std::mt19937_64 draw(1);
  for (const double most : {1e-3, 1.0, 30.0, 700.0})
    for (const std::size_t n : kLengths) {
      std::uniform_real_distribution<double> below(-most, 0);
      std::vector<double> x(n), y(n);
      for (double& number : x) number = 3 + below(draw);
      const double sum = exponentials(x, 3, y);
      double expected_sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double expected = std::exp(x[i] - 3);
        EXPECT_NEAR(y[i], expected, kTolerance * expected) << x[i];
        expected_sum += y[i];
      }
      EXPECT_NEAR(sum, expected_sum, 1e-13 * expected_sum);
      EXPECT_EQ(exponentials(x, 3, x), sum) << "in place";
      EXPECT_EQ(x, y);
    }
}

TEST(Exponentials, EndAtZeroAndOne) {
  std::vector<double> x{0, -708, -708.001, -1e300, -std::numeric_limits<double>::infinity()}, y(x.size());
  exponentials(x, 0, y);
  EXPECT_EQ(y[0], 1);
  EXPECT_NEAR(y[1] / std::exp(-708.0), 1, kTolerance);
  for (std::size_t i = 2; i < x.size(); ++i) EXPECT_EQ(y[i], 0) << x[i];
}

TEST(MinusLogOfRest, IsThatOfTheLibrary) {
  std::mt19937_64 draw(2);
  std::uniform_real_distribution<double> share(0, 1);
  for (const std::size_t n : kLengths)
    for (int kind = 0; kind < 3; ++kind) {
      std::vector<double> w(n), y(n);
      for (double& weight : w) {
        weight = share(draw);
        if (kind == 1) weight = std::pow(10, -300 * weight);       // where 1 - w is 1
        if (kind == 2) weight = 1 - std::pow(10, -15.5 * weight);  // and where it is almost nothing
      }
      minus_log_of_rest(w, y);
      for (std::size_t i = 0; i < n; ++i) {
        const double expected = -std::log1p(-w[i]);
        EXPECT_NEAR(y[i], expected, kTolerance * expected) << w[i];
      }
      minus_log_of_rest(w, w);
      EXPECT_EQ(w, y) << "in place";
    }
}

TEST(MinusLogOfRest, OfNothingIsZero) {
  std::vector<double> w{0, std::nextafter(1.0, 0.0)}, y(2);
  minus_log_of_rest(w, y);
  EXPECT_EQ(y[0], 0);
  EXPECT_NEAR(y[1], 53 * std::log(2.0), 1e-13);
}

}  // namespace
}  // namespace keyscope::analysis
