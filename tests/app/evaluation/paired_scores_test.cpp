#include "app/evaluation/paired_scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::ElementsAre;

// 10 · example + the budget + 100 in blocks of 8.
Scores score(std::size_t example, const GridPoint& point) {
  return {{"score", 10.0 * static_cast<double>(example) + static_cast<double>(point.rows_for(40)) +
                        (point.block == 8 ? 100 : 0)}};
}

TEST(ScoreTable, ComparesWithTheFullCacheOfTheSameBlock) {
  const auto grid = grid_of(made_settings());
  ASSERT_EQ(grid.size(), 6U);
  const auto results = made_results(3, grid, score);
  const ScoreTable table(results, grid);
  EXPECT_EQ(table.n_examples(), 3U);
  const std::vector<std::size_t> examples{2, 0};
  for (std::size_t point = 0; point < grid.size(); ++point) {
    EXPECT_FALSE(grid[table.reference(point)].evicts());
    EXPECT_EQ(grid[table.reference(point)].block, grid[point].block);
    const auto rows = static_cast<double>(grid[point].rows_for(40)),
               block = grid[point].block == 8 ? 100.0 : 0;
    EXPECT_THAT(table.scores("score", point, examples), ElementsAre(20 + rows + block, rows + block));
    EXPECT_THAT(table.differences("score", point, examples), ElementsAre(rows, rows));
  }
  EXPECT_THROW(table.scores("other", 0, examples), InvalidInput);
}

TEST(MeansOfEach, AreOfWholeGroups) {
  const std::vector<double> values{1, 2, 3, 5, 8, 13};
  EXPECT_THAT(means_of_each(values, 2), ElementsAre(1.5, 4, 10.5));
  EXPECT_THAT(means_of_each(values, 1), ElementsAre(1, 2, 3, 5, 8, 13));
  EXPECT_TRUE(means_of_each({}, 3).empty());
  EXPECT_THROW(means_of_each(values, 4), InvalidInput);
  EXPECT_THROW(means_of_each(values, 0), InvalidInput);
}

}  // namespace
}  // namespace keyscope::evaluation
