#include "analysis/policies/row_selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "../sample_rows.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Rows = std::vector<std::int32_t>;
using Marks = std::vector<std::uint8_t>;

Selection select(const std::vector<double>& scores, std::int64_t budget, Rows forced = {}) {
  Marks marks(scores.size());
  for (const auto row : forced) marks[static_cast<std::size_t>(row)] = 1;
  return select_rows(scores, marks, budget);
}

TEST(Selection, KeepsTheLargestInTimeOrder) {
  const Selection selection = select({0.5, 0.9, 0.1, 0.7}, 2);
  EXPECT_EQ(selection.retained, (Rows{1, 3}));
  EXPECT_EQ(selection.evicted, (Rows{0, 2}));
  EXPECT_FLOAT_EQ(selection.margin[0], 0.2F);
  EXPECT_FLOAT_EQ(selection.margin[1], 0.6F);
}

TEST(Selection, TiesGoToTheLowerRow) {
  EXPECT_EQ(select({1, 1, 1, 1, 1}, 3).retained, (Rows{0, 1, 2}));
  EXPECT_EQ(select({0, 1, 0, 1, 0}, 3).retained, (Rows{0, 1, 3}));
  EXPECT_EQ(select({-0.0, 0.0, 0.0}, 1).retained, (Rows{0}));
}

TEST(Selection, ForcedRowsComeFirstAndCountWithinTheBudget) {
  const Selection selection = select({0.9, 0.1, 0.5, 0.7}, 2, {1});
  EXPECT_EQ(selection.retained, (Rows{0, 1}));
  EXPECT_FLOAT_EQ(selection.margin[1], 0.2F) << "against 0.9, the lowest that was not forced";
}

TEST(Selection, MarginIsNaNWhereAllRetainedWereForced) {
  const Selection selection = select({5, 1, 2}, 2, {1, 2});
  EXPECT_EQ(selection.retained, (Rows{1, 2}));
  ASSERT_EQ(selection.margin.size(), 1U);
  EXPECT_TRUE(std::isnan(selection.margin[0]));
}

TEST(Selection, NothingGoesWithinTheBudget) {
  EXPECT_EQ(select({3, 1, 2}, 3).retained, (Rows{0, 1, 2}));
  EXPECT_EQ(select({3, 1, 2}, 100).retained, (Rows{0, 1, 2}));
  EXPECT_TRUE(select({3, 1, 2}, 3).evicted.empty());
  EXPECT_TRUE(select({}, 1).retained.empty());
}

TEST(Selection, EqualsAStableSortOnManyTies) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto scores = sample_uniform(seed, 40);
    for (double& score : scores) score = std::floor(score * 6);
    Marks forced(40);
    for (std::size_t i = 0; i < 40; ++i) forced[i] = sample_uniform(seed + 1000, 40)[i] < 0.1 ? 1 : 0;
    const auto n_forced = std::count(forced.begin(), forced.end(), 1);
    const std::int64_t budget = std::max<std::int64_t>(n_forced, 1 + static_cast<std::int64_t>(seed % 39));
    Rows expected(40);
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      return forced[i] != forced[j] ? forced[i] > forced[j] : scores[i] > scores[j];
    });
    expected.resize(static_cast<std::size_t>(budget));
    std::sort(expected.begin(), expected.end());
    const Selection selection = select_rows(scores, forced, budget);
    EXPECT_EQ(selection.retained, expected) << "seed " << seed;
    EXPECT_EQ(selection.evicted.size(), 40 - static_cast<std::size_t>(budget));
    for (const float margin : selection.margin) EXPECT_FALSE(margin < 0);
  }
}

TEST(Selection, RefusesWhatHasNoOrder) {
  EXPECT_THROW(select({1, std::numeric_limits<double>::quiet_NaN()}, 1), InvalidInput);
  EXPECT_THROW(select({1, std::numeric_limits<double>::infinity()}, 1), InvalidInput);
  EXPECT_THROW(select({1, 2}, 0), InvalidInput);
  EXPECT_THROW(select({1, 2}, -3), InvalidInput);
  EXPECT_THROW(select({1, 2, 3}, 1, {0, 1}), InvalidInput);
  EXPECT_THROW(select_rows(std::vector<double>{1, 2}, Marks(3), 1), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
