#include "analysis/kruskal_wallis.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/support/goldens.hpp"

namespace keyscope::analysis {

namespace {

using Values = std::vector<double>;
using Members = std::vector<std::int32_t>;

TEST(KruskalWallis, MatchesSciPy) {
  for (const auto& golden : read_goldens("kruskal_goldens.json", "cases")) {
    const auto values = golden["values"].get<Values>();
    const auto groups = golden["groups"].get<Members>();
    const KruskalWallis found = kruskal_wallis(values, groups, 9999);
    const auto name = golden["name"].get<std::string>();
    EXPECT_EQ(found.status, CorrelationStatus::kDefined) << name;
    EXPECT_EQ(found.n_groups, golden["n_groups"].get<int>()) << name;
    EXPECT_NEAR(found.statistic, golden["h"].get<double>(), 1e-9) << name;
    EXPECT_NEAR(found.epsilon_squared, golden["epsilon_squared"].get<double>(), 1e-12) << name;
    const bool exact = golden.contains("p_exact");
    // Permutations scatter by √(p (1 - p) / 9999), at most 0.005; the χ² law itself is an approximation.
    EXPECT_NEAR(found.p_value, golden[exact ? "p_exact" : "p_chi2"].get<double>(), exact ? 0.015 : 0.03)
        << name;
  }
}

// Ranks 1 to 4 in two groups of two: H = 12/(4·5) · (3²/2 + 7²/2) - 3·5 = 2.4. Of the six ways to choose the
// first group, two differ as much.
TEST(KruskalWallis, WorkedByHand) {
  const KruskalWallis found = kruskal_wallis(Values{0.1, 0.2, 5, 7}, Members{3, 3, 0, 0}, 9999);
  EXPECT_NEAR(found.statistic, 2.4, 1e-12);
  EXPECT_NEAR(found.epsilon_squared, 0.8, 1e-12);
  EXPECT_NEAR(found.p_value, 1.0 / 3, 0.02);
  EXPECT_EQ(found.n, 4);
  EXPECT_EQ(found.n_groups, 2);
}

TEST(KruskalWallis, IsTheSameAgain) {
  const Values values{3, 1, 4, 1, 5, 9, 2, 6};
  const Members groups{0, 0, 1, 1, 2, 2, 0, 1};
  EXPECT_EQ(kruskal_wallis(values, groups).p_value, kruskal_wallis(values, groups).p_value);
  EXPECT_NE(kruskal_wallis(values, groups, 999, 1).p_value, kruskal_wallis(values, groups, 999, 2).p_value);
}

TEST(KruskalWallis, SaysWhyThereIsNone) {
  const auto status = [](const Values& values, const Members& groups) {
    const KruskalWallis found = kruskal_wallis(values, groups);
    EXPECT_TRUE(std::isnan(found.statistic) && std::isnan(found.epsilon_squared) &&
                std::isnan(found.p_value));
    return found.status;
  };
  EXPECT_EQ(status({}, {}), CorrelationStatus::kEmpty);
  EXPECT_EQ(status({1}, {0}), CorrelationStatus::kConstant);
  EXPECT_EQ(status({1, 2, 3}, {4, 4, 4}), CorrelationStatus::kConstant);
  EXPECT_EQ(status({2, 2, 2}, {0, 1, 2}), CorrelationStatus::kConstant);
  EXPECT_EQ(status({1, std::numeric_limits<double>::quiet_NaN()}, {0, 1}), CorrelationStatus::kNotANumber);
}

TEST(KruskalWallis, RefusesWhatDoesNotFit) {
  EXPECT_THROW(kruskal_wallis(Values{1, 2}, Members{0}), InvalidInput);
  EXPECT_THROW(kruskal_wallis(Values{1, 2}, Members{0, -1}), InvalidInput);
}

}  // namespace

}  // namespace keyscope::analysis
