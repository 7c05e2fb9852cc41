#include "app/session/token_selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Tokens 0 to 3 at the corners of a square, evicted where odd, and the query of token 0 in its middle.
figures::Panel square() {
  figures::Panel panel;
  figures::PointSeries queries, evicted, retained, anchor;
  queries.id = "queries";
  queries.x = queries.y = {0.5F};
  queries.token = {0};
  evicted.id = "evicted";
  evicted.x = {1, 0};
  evicted.y = {0, 1};
  evicted.token = {1, 3};
  evicted.value = {10, 30};
  retained.id = "retained";
  retained.x = {0, 1};
  retained.y = {0, 1};
  retained.token = {0, 2};
  retained.value = {0, 20};
  anchor.id = "anchor";
  anchor.x = anchor.y = {0.5F};
  panel.points = {queries, evicted, retained, anchor};
  return panel;
}

std::vector<OutlinePoint> box(double x_low, double x_high, double y_low, double y_high) {
  return {{x_low, y_low}, {x_high, y_low}, {x_high, y_high}, {x_low, y_high}};
}

TEST(TokenSelection, IsOfPanelsWithTokens) {
  EXPECT_TRUE(has_tokens(square()));
  figures::Panel means;
  means.points.push_back(square().points.back());
  EXPECT_FALSE(has_tokens(means));
  EXPECT_FALSE(has_tokens({}));
}

TEST(TokenSelection, HoldsTheKeysInsideABox) {
  EXPECT_THAT(tokens_inside(square(), {}, box(-1, 2, -1, 2)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(tokens_inside(square(), {}, box(-1, 2, 0.5, 2)), ElementsAre(2, 3));
  EXPECT_THAT(tokens_inside(square(), {}, box(2, -1, 2, 0.5)), ElementsAre(2, 3)) << "drawn backwards";
  EXPECT_THAT(tokens_inside(square(), {}, box(0.4, 0.6, 0.4, 0.6)), IsEmpty()) << "a query and the anchor";
  EXPECT_THAT(tokens_inside(square(), {"evicted"}, box(-1, 2, -1, 2)), ElementsAre(0, 2)) << "hidden";
  EXPECT_THAT(tokens_inside(square(), {}, {{-1, -1}, {2, 2}}), IsEmpty()) << "a line holds nothing";
}

TEST(TokenSelection, HoldsTheKeysInsideAnOutlineOfAnyShape) {
  // A triangle around three corners, and an L around all but the upper right one.
  EXPECT_THAT(tokens_inside(square(), {}, {{-0.5, -0.5}, {1.8, -0.5}, {-0.5, 1.8}}), ElementsAre(0, 1, 3));
  EXPECT_THAT(tokens_inside(square(), {},
                            {{-0.5, -0.5}, {1.5, -0.5}, {1.5, 0.5}, {0.5, 0.5}, {0.5, 1.5}, {-0.5, 1.5}}),
              ElementsAre(0, 1, 3));
  // What an outline winds around twice is outside again.
  std::vector<OutlinePoint> twice = box(-1, 2, -1, 2);
  const std::vector<OutlinePoint> half = box(-1, 2, -1, 0.5);
  twice.push_back(twice.front());
  twice.insert(twice.end(), half.begin(), half.end());
  twice.push_back(half.front());
  EXPECT_THAT(tokens_inside(square(), {}, twice), ElementsAre(2, 3));
}

TEST(TokenSelection, WhatIsNotSelectedStandsBackAndIsStillThere) {
  const figures::Panel panel = fade_unselected(square(), {1, 2});
  ASSERT_EQ(panel.points.size(), 7U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(panel.points[i].faded) << "drawn first";
  for (std::size_t i = 3; i < 7; ++i) EXPECT_FALSE(panel.points[i].faded);
  EXPECT_EQ(panel.points[1].id, "evicted");
  EXPECT_THAT(panel.points[1].token, ElementsAre(3));
  EXPECT_THAT(panel.points[1].value, ElementsAre(30));
  EXPECT_EQ(panel.points[4].id, "evicted");
  EXPECT_THAT(panel.points[4].token, ElementsAre(1));
  EXPECT_THAT(panel.points[5].value, ElementsAre(20));
  EXPECT_EQ(panel.points[6].id, "anchor");
}

TEST(TokenSelection, IsSearched) {
  EXPECT_TRUE(contains({1, 5, 9}, 5));
  EXPECT_FALSE(contains({1, 5, 9}, 6));
}

}  // namespace
}  // namespace keyscope::session
