#include "app/panels/layout.hpp"

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
  const std::vector<Rect> rects{layout.top,   layout.heads,    layout.runs,  layout.keyspace,
                                layout.token, layout.timeline, layout.status};
  for (std::size_t i = 0; i < rects.size(); ++i) {
    EXPECT_GE(rects[i].x, 0);
    EXPECT_GT(rects[i].w, 0);
    EXPECT_GT(rects[i].h, 0);
    EXPECT_LE(rects[i].right(), width + 0.5F);
    EXPECT_LE(rects[i].bottom(), height + 0.5F);
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(rects[i], rects[j])) << i << " and " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LayoutAt,
                         ::testing::Values(std::tuple{640.0F, 420.0F, 1.0F}, std::tuple{900.0F, 600.0F, 1.0F},
                                           std::tuple{1280.0F, 800.0F, 1.0F},
                                           std::tuple{1920.0F, 1080.0F, 1.0F},
                                           std::tuple{3840.0F, 2160.0F, 2.0F}));

}  // namespace
}  // namespace keyscope::window
