#include "app/figures/scales.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

double luminance(Colour c) { return 0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b; }

TEST(ColourMap, ViridisGetsSteadilyLighter) {
  const auto& table = colour_table(ColourMap::kViridis);
  for (std::size_t i = 1; i < table.size(); ++i)
    EXPECT_GE(luminance(table[i]) + 0.8, luminance(table[i - 1])) << i;
  EXPECT_EQ(table.front().r, 0x44);
  EXPECT_EQ(table.back().g, 0xE7);
}

TEST(ColourMap, TheDivergingMapIsBlueBelowAndRedAboveAPaleMiddle) {
  const auto& table = colour_table(ColourMap::kDiverging);
  EXPECT_GT(table[40].b, table[40].r);
  EXPECT_GT(table[215].r, table[215].b);
  EXPECT_GT(luminance(table[128]), 240);
}

TEST(ScalePosition, LinearAndLogarithmic) {
  Heatmap heatmap;
  heatmap.low = -1;
  EXPECT_FLOAT_EQ(scale_position(heatmap, 0), 0.5F);
  EXPECT_FLOAT_EQ(scale_position(heatmap, 9), 1);
  EXPECT_TRUE(std::isnan(scale_position(heatmap, NAN)));
  heatmap.low = 0.01F;
  heatmap.logarithmic = true;
  EXPECT_NEAR(scale_position(heatmap, 0.1F), 0.5, 1e-6);
  EXPECT_EQ(scale_position(heatmap, 0), 0);
  EXPECT_EQ(colour_of(heatmap, NAN).r, kMissing.r);
}

TEST(ScalePosition, ConstantDataIsTheMiddle) {
  Heatmap heatmap;
  heatmap.low = heatmap.high = 3;
  EXPECT_FLOAT_EQ(scale_position(heatmap, 3), 0.5F);
}

}  // namespace
}  // namespace keyscope::figures
