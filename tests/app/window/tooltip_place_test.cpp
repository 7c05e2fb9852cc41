#include "app/panels/tooltip_place.hpp"

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

constexpr Rect kPlot{100, 50, 400, 300};
constexpr float kGap = 16;

TEST(PlaceTooltip, LiesTowardsTheMiddle) {
  const Pixel left = place_tooltip({120, 60}, {150, 80}, kPlot, kGap);
  EXPECT_EQ(left.x, 136);
  EXPECT_EQ(left.y, 76);
  const Pixel right = place_tooltip({480, 340}, {150, 80}, kPlot, kGap);
  EXPECT_EQ(right.x, 480 - 16 - 150);
  EXPECT_EQ(right.y, 340 - 16 - 80);
}

TEST(PlaceTooltip, StaysInsideThePlotAndOffTheMouseWhereItFits) {
  for (const Pixel size : {Pixel{60, 40}, Pixel{300, 80}, Pixel{390, 120}})
    for (float x = kPlot.x; x < kPlot.right(); x += 7)
      for (float y = kPlot.y; y < kPlot.bottom(); y += 7) {
        const Pixel at = place_tooltip({x, y}, size, kPlot, kGap);
        EXPECT_GE(at.x, kPlot.x);
        EXPECT_LE(at.x + size.x, kPlot.right());
        EXPECT_GE(at.y, kPlot.y);
        EXPECT_LE(at.y + size.y, kPlot.bottom());
        EXPECT_FALSE(x >= at.x && x < at.x + size.x && y >= at.y && y < at.y + size.y) << x << ", " << y;
      }
}

TEST(PlaceTooltip, OneThatFitsNowhereLeavesTheMouseFree) {
  const Pixel at = place_tooltip({300, 100}, {390, 290}, kPlot, kGap);
  EXPECT_EQ(at.y, 116);
  EXPECT_GE(at.x, kPlot.x);
}

}  // namespace
}  // namespace keyscope::window
