#include "app/panels/layout.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

class LayoutAt : public ::testing::TestWithParam<std::tuple<float, float, float>> {};

TEST_P(LayoutAt, PanelsAreInsideTheWindowAndApart) {
  const auto [width, height, scale] = GetParam();
  const Layout layout = make_layout(width, height, scale, 160 * scale);
  const std::vector<Rect> rects{layout.top,    layout.views, layout.heads,    layout.runs,
                                layout.middle, layout.token, layout.timeline, layout.status};
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
  const Layout layout = make_layout(width, height, scale, 160 * scale);
  EXPECT_EQ(layout.heads.empty(), layout.runs.empty());
  EXPECT_GE(layout.middle.w, std::min(300 * scale, width - 16 * scale)) << width << " x " << height;
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
  EXPECT_EQ(make_layout(1280, 800, 1, 160).timeline.h, 112);
  EXPECT_EQ(make_layout(1280, 800, 2, 320).timeline.h, 136);
  EXPECT_EQ(make_layout(640, 480, 1, 160).timeline.h, 68);
}

}  // namespace
}  // namespace keyscope::window
