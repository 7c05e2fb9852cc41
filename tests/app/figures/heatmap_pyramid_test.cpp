#include "app/figures/heatmap_pyramid.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

using Eigen::Index;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A cell of a level from the matrix itself.
float reduced(const RowMatrixF& values, HeatmapLevel level, Index row, Index col, Reduction reduction) {
  const Index rows = Index{1} << level.y, cols = Index{1} << level.x;
  double sum = 0, most = -1e30, least = 1e30;
  int n = 0;
  for (Index r = row * rows; r < std::min((row + 1) * rows, values.rows()); ++r)
    for (Index c = col * cols; c < std::min((col + 1) * cols, values.cols()); ++c) {
      const double value = values(r, c);
      if (std::isnan(value)) continue;
      sum += value;
      most = std::max(most, value);
      least = std::min(least, value);
      ++n;
    }
  if (n == 0) return kNaN;
  if (reduction == Reduction::kMean) return static_cast<float>(sum / n);
  return static_cast<float>(reduction == Reduction::kMax ? most : least);
}

RowMatrixF noise(Index rows, Index cols) {
  std::mt19937 random(7);
  std::normal_distribution<float> value(0, 1);
  std::bernoulli_distribution missing(0.3);
  RowMatrixF values(rows, cols);
  for (float& cell : values.reshaped()) cell = missing(random) ? kNaN : value(random);
  values.block(0, 0, 4, 4).setConstant(kNaN);
  return values;
}

class Pyramid : public ::testing::TestWithParam<Reduction> {
 protected:
  static void expect_reduced(const RowMatrixF& cells, const RowMatrixF& values, HeatmapLevel level) {
    ASSERT_EQ(cells.rows(), (values.rows() + (Index{1} << level.y) - 1) >> level.y);
    ASSERT_EQ(cells.cols(), (values.cols() + (Index{1} << level.x) - 1) >> level.x);
    for (Index row = 0; row < cells.rows(); ++row)
      for (Index col = 0; col < cells.cols(); ++col) {
        const float expected = reduced(values, level, row, col, GetParam());
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(cells(row, col)));
        else
          EXPECT_NEAR(cells(row, col), expected, 1e-5);
      }
  }
};

TEST_P(Pyramid, EveryLevelIsOfAllTheCellsThatItStandsFor) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{8, 8}, {13, 21}, {37, 5}, {6, 100}}) {
    const RowMatrixF values = noise(rows, cols);
    HeatmapPyramid pyramid(values, GetParam());
    const std::size_t n_levels = pyramid.levels().size();
    ASSERT_EQ(pyramid.levels().back().size(), 1);
    for (std::size_t x = 0; x < n_levels; ++x)
      for (std::size_t y = 0; y < n_levels; ++y) expect_reduced(pyramid.at({x, y}), values, {x, y});
  }
}

INSTANTIATE_TEST_SUITE_P(Reductions, Pyramid,
                         ::testing::Values(Reduction::kMean, Reduction::kMax, Reduction::kMin),
                         [](const auto& of) { return std::string(reduction_name(of.param)); });

TEST(HeatmapPyramid, TakesTheLevelWhoseCellsAreAPixelOrMore) {
  const HeatmapPyramid pyramid(RowMatrixF::Zero(100, 40), Reduction::kMax);
  ASSERT_EQ(pyramid.levels().size(), 8u);  // 100, 50, 25, 13, 7, 4, 2, 1 rows
  EXPECT_EQ(pyramid.level_for(0.1, 1), (HeatmapLevel{0, 0}));
  EXPECT_EQ(pyramid.level_for(1, 1.01), (HeatmapLevel{0, 1}));
  EXPECT_EQ(pyramid.level_for(2, 5), (HeatmapLevel{1, 3}));
  EXPECT_EQ(pyramid.level_for(1e9, 0.2), (HeatmapLevel{7, 0}));
}

TEST(HeatmapPyramid, OfNothingIsNothing) {
  EXPECT_EQ(HeatmapPyramid().level_for(10, 10), HeatmapLevel{});
  EXPECT_EQ(HeatmapPyramid(RowMatrixF(0, 0), Reduction::kMin).level_for(10, 10), HeatmapLevel{});
}

}  // namespace
}  // namespace keyscope::figures
