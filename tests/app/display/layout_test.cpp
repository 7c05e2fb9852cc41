#include "app/display/layout.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/display/glfw_window.hpp"
#include "app/display/widgets.hpp"
#include "app/window/window.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::window {

namespace {

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

class LayoutAt : public ::testing::TestWithParam<std::tuple<float, float, float>> {};

TEST_P(LayoutAt, PanelsAreInsideTheWindowAndApart) {
  const auto [width, height, scale] = GetParam();
  const Layout layout = make_layout(width, height, scale, 160 * scale);
  const std::vector<Rect> rects{layout.heads, layout.runs, layout.middle, layout.token, layout.timeline};
  EXPECT_FALSE(layout.middle.empty());
  for (std::size_t i = 0; i < rects.size(); ++i) {
    if (rects[i].empty()) continue;
    EXPECT_GE(rects[i].x, 0);
    EXPECT_LE(rects[i].right(), width + 0.5F);
    EXPECT_LE(rects[i].bottom(), height + 0.5F);
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(!rects[j].empty() && overlap(rects[i], rects[j])) << i << " and " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LayoutAt,
    ::testing::Values(std::tuple{320.0F, 320.0F, 1.0F}, std::tuple{640.0F, 420.0F, 1.0F},
                      std::tuple{1280.0F, 800.0F, 2.0F}, std::tuple{1280.0F, 800.0F, 4.0F},
                      std::tuple{900.0F, 600.0F, 1.0F}, std::tuple{1280.0F, 800.0F, 1.0F},
                      std::tuple{1920.0F, 1080.0F, 1.0F}, std::tuple{3840.0F, 2160.0F, 2.0F}));

// Which panels there are at a size, in the order in which they give way.
std::string shown(float width, float height, float scale = 1) {
  const float bars = 73 * scale;  // at the top and the bottom of the window
  const Layout layout = make_layout(width, height - bars, scale, 160 * scale);
  EXPECT_EQ(layout.heads.empty(), layout.runs.empty());
  EXPECT_GE(layout.middle.width, std::min(300 * scale, width - 16 * scale)) << width << " x " << height;
  std::string names;
  if (!layout.token.empty()) names += "token ";
  if (!layout.heads.empty()) names += "heads ";
  if (!layout.timeline.empty()) names += "timeline";
  return names;
}

TEST(Layout, WhatHasNoRoomGivesWayToTheKeySpace) {
  EXPECT_EQ(shown(1280, 800), "token heads timeline");
  EXPECT_EQ(shown(800, 600), "token heads timeline");
  EXPECT_EQ(shown(640, 420), "heads timeline");
  EXPECT_EQ(shown(480, 420), "timeline");
  EXPECT_EQ(shown(480, 320), "");
  EXPECT_EQ(shown(1280, 320), "token heads ");
  EXPECT_EQ(shown(1280, 800, 2), "heads timeline");
  EXPECT_EQ(shown(1280, 800, 4), "");
}

TEST(Layout, TheTimelineIsHigherWhereThereIsTheHeight) {
  EXPECT_EQ(make_layout(1280, 727, 1, 160).timeline.height, 134);
  EXPECT_EQ(make_layout(1280, 654, 2, 320).timeline.height, 180);
  EXPECT_EQ(make_layout(640, 407, 1, 160).timeline.height, 90);
}

TEST(CutText, CutsBetweenCharactersNotBytes) {
  const auto measure = [](const std::string& text) { return 10 * static_cast<float>(text.size()); };
  EXPECT_EQ(cut_text("ρρρρ", 80, measure), "ρρρρ");
  EXPECT_EQ(cut_text("ρρρρ", 70, measure), "ρρ…");
  EXPECT_EQ(cut_text("abc", 5, measure), "…");
  int n_measured = 0;  // the window measures whatever a file calls something
  const auto counting = [&](const std::string& cut) { return ++n_measured, measure(cut); };
  cut_text(std::string(100'000, 'x'), 70, counting);
  EXPECT_LT(n_measured, 30);
}

constexpr Rect kPlot{100, 50, 400, 300};
constexpr float kTooltipGap = 16;

TEST(PlaceTooltip, LiesTowardsTheMiddle) {
  const Pixel left = place_tooltip({120, 60}, {150, 80}, kPlot, kTooltipGap);
  EXPECT_EQ(left.x, 136);
  EXPECT_EQ(left.y, 76);
  const Pixel right = place_tooltip({480, 340}, {150, 80}, kPlot, kTooltipGap);
  EXPECT_EQ(right.x, 480 - 16 - 150);
  EXPECT_EQ(right.y, 340 - 16 - 80);
}

TEST(PlaceTooltip, StaysInsideThePlotAndOffTheMouseWhereItFits) {
  for (const Pixel size : {Pixel{60, 40}, Pixel{300, 80}, Pixel{390, 120}})
    for (int column = 0; column < 400; column += 7)
      for (int row = 0; row < 300; row += 7) {
        const float x = kPlot.x + static_cast<float>(column), y = kPlot.y + static_cast<float>(row);
        const Pixel at = place_tooltip({x, y}, size, kPlot, kTooltipGap);
        EXPECT_GE(at.x, kPlot.x);
        EXPECT_LE(at.x + size.x, kPlot.right());
        EXPECT_GE(at.y, kPlot.y);
        EXPECT_LE(at.y + size.y, kPlot.bottom());
        EXPECT_FALSE(x >= at.x && x < at.x + size.x && y >= at.y && y < at.y + size.y) << x << ", " << y;
      }
}

TEST(PlaceTooltip, OneThatFitsNowhereLeavesTheMouseFree) {
  const Pixel at = place_tooltip({300, 100}, {390, 290}, kPlot, kTooltipGap);
  EXPECT_EQ(at.y, 116);
  EXPECT_GE(at.x, kPlot.x);
}

TEST(DefaultSize, GrowsWithTheMonitorsScale) {
  const WindowSize size = default_size(2, {3840, 2160});
  EXPECT_EQ(size.width, 2560);
  EXPECT_EQ(size.height, 1600);
}

TEST(DefaultSize, IsNeverLargerThanTheWorkArea) {
  const WindowSize size = default_size(1.5F, {1366, 740});
  EXPECT_EQ(size.width, 1366);
  EXPECT_EQ(size.height, 740);
}

TEST(DefaultSize, WhatIsNotKnownDoesNotMatter) {
  const WindowSize size = default_size(0, {});
  EXPECT_EQ(size.width, 1280);
  EXPECT_EQ(size.height, 800);
}

TEST(DefaultSize, ARememberedOneIsCutToTheScreen) {
  const WindowSize cut = within({3000, 700}, {1920, 1040});
  EXPECT_EQ(cut.width, 1920);
  EXPECT_EQ(cut.height, 700);
  const WindowSize least = within({100, 5000}, {400, 300});
  EXPECT_EQ(least.width, kLeastSize.width) << "even where the screen is smaller";
  EXPECT_EQ(least.height, kLeastSize.height);
  EXPECT_EQ(within({3000, 2000}, {}).width, 3000);
}

TEST(Settings, ComeBackAsTheyWere) {
  const test::ScratchFolder folder;
  EXPECT_EQ(load_settings(folder.path()), Settings());
  save_settings(folder.path() / "keyscope", {true, 900, 700});
  EXPECT_EQ(load_settings(folder.path() / "keyscope"), (Settings{true, 900, 700}));
  save_settings({}, {true, 900, 700});  // without a home
  EXPECT_EQ(load_settings({}), Settings());
}

TEST(Settings, WhatMakesNoSenseIsTheDefault) {
  const test::ScratchFolder folder;
  for (const char* text :
       {"{", "[true]", R"({"light": "yes", "width": 900})", R"({"width": -900, "height": 700})",
        R"({"width": 1e99, "height": 700})", R"({"width": 99999999999999999999, "height": 700})",
        R"({"light": null, "width": [900], "height": {"a": 700}})", R"({"width": 900.5, "height": 700})"}) {
    std::ofstream(folder.file("window.json"), std::ios::trunc) << text;
    EXPECT_EQ(load_settings(folder.path()), Settings()) << text;
  }
}

}  // namespace

}  // namespace keyscope::window
