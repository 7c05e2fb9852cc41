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

TEST(DefaultSize, ARememberedOneIsCutToTheScreen) {
  const WindowSize cut = within({3000, 700}, {1920, 1040});
  EXPECT_EQ(cut.width, 1920);
  EXPECT_EQ(cut.height, 700);
  const WindowSize least = within({100, 5000}, {400, 300});
  EXPECT_EQ(least.width, kLeastSize.width) << "even where the screen is smaller";
  EXPECT_EQ(least.height, kLeastSize.height);
  EXPECT_EQ(within({3000, 2000}, {}).width, 3000);
}

}  // namespace
}  // namespace keyscope::window
