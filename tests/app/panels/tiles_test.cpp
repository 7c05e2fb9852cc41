#include "app/panels/tiles.hpp"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

constexpr float kTileGap = 10;

// Columns and rows, as "2x1".
std::string grid(float width, float height, std::size_t n) {
  std::size_t columns = 0, rows = 0;
  const auto rects = tile_rects({0, 0, width, height}, n, kTileGap);
  for (const Rect& rect : rects) {
    if (rect.y == rects.front().y) ++columns;
    if (rect.x == rects.front().x) ++rows;
  }
  return std::to_string(columns) + "x" + std::to_string(rows);
}

std::vector<session::RunTile> tiles_of(const std::vector<session::RunId>& ids) {
  std::vector<session::RunTile> tiles(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) tiles[i].id = ids[i];
  return tiles;
}

TEST(KeepWithRuns, DropsWhatIsOfRunsThatAreGone) {
  std::map<session::RunId, int> things{{{0, 0}, 10}, {{0, 1}, 11}, {{0, 2}, 12}};
  EXPECT_TRUE(keep_with_runs(things, tiles_of({{0, 0}, {0, 2}})));
  EXPECT_EQ(things, (std::map<session::RunId, int>{{{0, 0}, 10}, {{0, 2}, 12}}));
  EXPECT_FALSE(keep_with_runs(things, tiles_of({{0, 0}, {0, 2}, {0, 3}}))) << "what is new is not made here";
  EXPECT_EQ(things.size(), 2U);
}

TEST(KeepWithRuns, OneAloneGoesOverToAnotherRun) {
  std::map<session::RunId, int> things{{{0, 0}, 10}};
  EXPECT_FALSE(keep_with_runs(things, tiles_of({{0, 1}})));
  EXPECT_EQ(things, (std::map<session::RunId, int>{{{0, 1}, 10}}));
  EXPECT_TRUE(keep_with_runs(things, tiles_of({{0, 2}, {0, 3}}))) << "of two new ones it is neither's";
}

TEST(Tiles, StandAsTheAreaAllows) {
  EXPECT_EQ(grid(670, 520, 1), "1x1");
  EXPECT_EQ(grid(670, 520, 2), "2x1");
  EXPECT_EQ(grid(300, 500, 2), "1x2") << "an upright area";
  EXPECT_EQ(grid(670, 520, 3), "2x2") << "two above one";
  EXPECT_EQ(grid(1500, 520, 3), "3x1") << "a wide area";
  EXPECT_EQ(grid(1500, 520, 4), "2x2");
}

class TilesIn : public ::testing::TestWithParam<std::tuple<float, float, std::size_t>> {};

TEST_P(TilesIn, AreEqualInsideAndApart) {
  const auto [width, height, n] = GetParam();
  const Rect area{7, 11, width, height};
  const auto rects = tile_rects(area, n, kTileGap);
  ASSERT_EQ(rects.size(), n);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(rects[i].width, rects[0].width);
    EXPECT_EQ(rects[i].height, rects[0].height);
    EXPECT_EQ(rects[i].width, std::floor(rects[i].width)) << "whole pixels";
    EXPECT_GE(rects[i].x, area.x);
    EXPECT_LE(rects[i].right(), area.right());
    EXPECT_LE(rects[i].bottom(), area.bottom());
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_TRUE(rects[i].x >= rects[j].right() + kTileGap || rects[i].y >= rects[j].bottom() + kTileGap)
          << i << " and " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TilesIn,
                         ::testing::Combine(::testing::Values(300.0F, 404.0F, 671.0F, 1205.0F),
                                            ::testing::Values(190.0F, 521.0F, 800.0F),
                                            ::testing::Values(1U, 2U, 3U, 4U)));

}  // namespace
}  // namespace keyscope::window
