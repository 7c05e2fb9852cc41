#include "app/figures/scales.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/axis_ticks.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> texts;
  for (const Tick& tick : ticks) texts.push_back(tick.label);
  return texts;
}

TEST(LinearTicks, StepsAreOneTwoFive) {
  EXPECT_THAT(labels(linear_ticks(0, 1, 5)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(linear_ticks(-1, 1, 4)), ElementsAre("−1.0", "−0.5", "0", "0.5", "1.0"));
  EXPECT_THAT(labels(linear_ticks(3, 52, 5)), ElementsAre("10", "20", "30", "40", "50"));
  EXPECT_THAT(labels(linear_ticks(0, 4096, 4)), ElementsAre("0", "2,000", "4,000"));
}

TEST(LinearTicks, CountedThingsHaveNoFractions) {
  EXPECT_THAT(labels(linear_ticks(0, 1, 10, true)), ElementsAre("0", "1"));
  EXPECT_THAT(labels(linear_ticks(0.5, 1.5, 10, true)), ElementsAre("1"));
}

TEST(LinearTicks, OneAloneGivesNoScale) {
  EXPECT_THAT(labels(linear_ticks(-19, 19, 2)), ElementsAre("−10", "0", "10")) << "20 would leave 0 alone";
  EXPECT_THAT(labels(linear_ticks(-4.9, 4.9, 2)), ElementsAre("−4", "0", "4")) << "not five in place of one";
  EXPECT_THAT(labels(linear_ticks(0.11, 0.19, 1)), ElementsAre("0.12", "0.16"));
}

TEST(LinearTicks, ExtremesStayReadable) {
  EXPECT_THAT(labels(linear_ticks(0, 2e-7, 2)), ElementsAre("0", "1e−07", "2e−07"));
  EXPECT_EQ(linear_ticks(5, 5, 5).size(), 1U);
  EXPECT_THAT(linear_ticks(1, 0, 5), IsEmpty());
  EXPECT_THAT(linear_ticks(0, std::numeric_limits<double>::infinity(), 5), IsEmpty());
  EXPECT_THAT(linear_ticks(std::nan(""), 1, 5), IsEmpty());
}

TEST(LinearTicks, NeverManyMoreThanWanted) {
  for (int power = -50; power <= 50; ++power)
    for (const int wanted : {1, 2, 3, 7}) {
      const double high = std::pow(1.7, power);
      const auto ticks = linear_ticks(-high / 3, high, wanted);
      EXPECT_GE(ticks.size(), 2U) << high;
      EXPECT_LE(ticks.size(), static_cast<std::size_t>(std::max(3, wanted + 1))) << high;
      for (const Tick& tick : ticks)
        EXPECT_TRUE(tick.value >= -high / 3 * 1.001 && tick.value <= high * 1.001);
    }
}

TEST(LogarithmicTicks, ArePowersOfTen) {
  EXPECT_THAT(labels(logarithmic_ticks(1e-5, 1, 6)),
              ElementsAre("10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1"));
  EXPECT_THAT(labels(logarithmic_ticks(1e-5, 1, 3)), ElementsAre("10⁻⁵", "0.001", "0.1"));
  EXPECT_THAT(logarithmic_ticks(0, 1, 3), IsEmpty());
}

TEST(FormatCount, GroupsThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
}

TEST(FormatSigned, HasAMinusSignAndNoneBeforeZero) {
  EXPECT_EQ(format_signed(0.9134, 3), "0.913");
  EXPECT_EQ(format_signed(-0.2, 3), "−0.200");
  EXPECT_EQ(format_signed(-0.004, 2), "0.00");
  EXPECT_EQ(format_signed(-0.4, 0), "0");
}

TEST(FormatValue, HasMinusSigns) {
  EXPECT_EQ(format_value(0.05), "0.05");
  EXPECT_EQ(format_value(-1.23456e-5), "−1.235e−05");
  EXPECT_EQ(format_value(0), "0");
}

TEST(FormatShare, NeverRoundsAwayWhatThereIs) {
  EXPECT_EQ(format_share(0.1234, 1), "12.3 %");
  EXPECT_EQ(format_share(0, 1), "0.0 %");
  EXPECT_EQ(format_share(0.0006, 1), "0.1 %");
  EXPECT_EQ(format_share(0.0004, 1), "< 0.1 %");
  EXPECT_EQ(format_share(1e-9, 2), "< 0.01 %");
}

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

Panel heatmap_of(int n_rows, int n_columns, double first = 0) {
  Panel panel;
  Heatmap& heatmap = panel.heatmap.emplace();
  heatmap.values = RowMatrixF::Zero(n_rows, n_columns);
  heatmap.x_first = heatmap.y_first = first;
  return panel;
}

Panel points_of(std::vector<float> x, std::vector<float> y) {
  Panel panel;
  PointSeries& series = panel.points.emplace_back();
  series.x = std::move(x);
  series.y = std::move(y);
  return panel;
}

void expect_range(const Range& range, double low, double high) {
  EXPECT_DOUBLE_EQ(range.low, low);
  EXPECT_DOUBLE_EQ(range.high, high);
}

TEST(DataRanges, OfAHeatmapRunDownwards) {
  const PanelRanges ranges = data_ranges(heatmap_of(3, 5));
  expect_range(ranges.x, 0, 5);
  expect_range(ranges.y, 3, 0);
}

TEST(SharedDataRanges, CoverThePointsOfAllPanels) {
  const PanelRanges ranges = shared_data_ranges({points_of({0}, {0}), points_of({100}, {-100})});
  expect_range(ranges.x, -6, 106);
  expect_range(ranges.y, -106, 6);
}

TEST(SharedDataRanges, OfHeatmapsAreAllTheirCellsAndRunDownwards) {
  const PanelRanges ranges = shared_data_ranges({heatmap_of(3, 5), heatmap_of(8, 2), heatmap_of(1, 1, -2)});
  expect_range(ranges.x, -2, 5);
  expect_range(ranges.y, 8, -2);
}

TEST(SharedDataRanges, OfOneHeatmapAreItsOwn) {
  const Panel panel = heatmap_of(3, 5);
  const PanelRanges shared = shared_data_ranges({panel}), own = data_ranges(panel);
  expect_range(shared.x, own.x.low, own.x.high);
  expect_range(shared.y, own.y.low, own.y.high);
}

TEST(SharedDataRanges, PointsBesideAHeatmapLieInItsDirection) {
  const PanelRanges ranges = shared_data_ranges({heatmap_of(10, 10), points_of({0, 100}, {0, 100})});
  expect_range(ranges.x, -6, 106);
  expect_range(ranges.y, 106, -6);
}

using ::testing::ElementsAre;
using ::testing::Field;

TEST(NameWithUnits, HasBracketsOnlyAroundUnits) {
  EXPECT_EQ(name_with_units("log volume", "nats"), "log volume [nats]");
  EXPECT_EQ(name_with_units("cosine", ""), "cosine");
}

TEST(TicksOfAnAxis, AreItsCategoriesInsideTheRange) {
  const Axis axis{"run", "", {"none", "keydiff", "sink"}};
  EXPECT_THAT(ticks_of(axis, 0.5, 2, 10),
              ElementsAre(Field(&Tick::label, "keydiff"), Field(&Tick::label, "sink")));
}

TEST(TicksOfAnAxis, AreWholeNumbersWhereThingsAreCounted) {
  const auto values = [](const std::vector<Tick>& ticks) {
    std::vector<double> all;
    for (const Tick& tick : ticks) all.push_back(tick.value);
    return all;
  };
  EXPECT_THAT(values(ticks_of(Axis{"layer", "", {}, true}, 0, 2, 8)), ElementsAre(0, 1, 2));
  EXPECT_THAT(values(ticks_of(Axis{"token", ""}, 0, 3, 8, 0.0)), ElementsAre(0.5, 1.5, 2.5))
      << "middles of cells";
  EXPECT_EQ(ticks_of(Axis{"token", ""}, 0, 3, 8, 0.0).front().label, "0");
  EXPECT_THAT(values(ticks_of(Axis{"head", ""}, -0.5, 2.5, 8, -0.5)), ElementsAre(0, 1, 2));
  EXPECT_GT(ticks_of(Axis{"cosine", ""}, 0, 2, 8).size(), 3U);
}

TEST(TicksOfAScale, StandWhereTheColourIs) {
  ColourScale scale;
  scale.low = -1;
  scale.high = 1;
  const auto ticks = ticks_of(scale, 3, 0);
  ASSERT_FALSE(ticks.empty());
  for (const ScaleTick& tick : ticks) {
    EXPECT_GE(tick.share, 0);
    EXPECT_LE(tick.share, 1);
  }
  EXPECT_EQ(ticks[ticks.size() / 2].label, "0");
  EXPECT_DOUBLE_EQ(ticks[ticks.size() / 2].share, 0.5);
}

TEST(TicksOfAScale, AreCategoriesFromTheTop) {
  ColourScale scale;
  scale.categories = {"word", "digit"};
  const auto ticks = ticks_of(scale, 5, 0.25);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_EQ(ticks[0].label, "word");
  EXPECT_DOUBLE_EQ(ticks[0].share, 0.875);
  EXPECT_DOUBLE_EQ(ticks[1].share, 0.625);
}

}  // namespace

}  // namespace keyscope::figures
