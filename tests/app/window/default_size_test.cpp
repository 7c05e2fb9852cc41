#include "app/window/default_size.hpp"

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

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

}  // namespace
}  // namespace keyscope::window
