#include "app/evaluation/text_windows.hpp"

#include <map>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> counted(int n) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(TextWindows, BeginWithTheSpecialToken) {
  const auto windows = text_windows(counted(7), {4, 3, 99});
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_THAT(windows[0].ids, ElementsAre(99, 0, 1, 2));
  EXPECT_THAT(windows[1].ids, ElementsAre(99, 3, 4, 5));
  EXPECT_EQ(windows[1].first, 3);
  EXPECT_EQ(windows[1].first_scored, 1);
}

TEST(TextWindows, ScoreTheirLastStride) {
  const auto windows = text_windows(counted(8), {6, 2, std::nullopt});
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_THAT(windows[1].ids, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_EQ(windows[1].first_scored, 4);
}

TEST(TextWindows, ScoreNoTokenTwice) {
  for (const bool bos : {false, true})
    for (std::int64_t length = 2; length < 9; ++length)
      for (std::int64_t stride = 1; stride < length; ++stride) {
        const WindowRule rule{length, stride, bos ? std::optional<std::int32_t>(99) : std::nullopt};
        std::map<std::int32_t, int> scored;
        const auto windows = text_windows(counted(30), rule);
        for (const TextWindow& window : windows) {
          ASSERT_EQ(std::ssize(window.ids), length);
          for (auto at = window.first_scored; at < length; ++at)
            ++scored[window.ids[static_cast<std::size_t>(at)]];
        }
        EXPECT_EQ(std::ssize(scored), std::ssize(windows) * stride);
        for (const auto& [id, n] : scored) EXPECT_EQ(n, 1) << id;
        // One after another, without a gap.
        EXPECT_EQ(scored.rbegin()->first - scored.begin()->first + 1, std::ssize(scored));
        // What is left is less than one more window would score.
        EXPECT_LT(30 - 1 - scored.rbegin()->first, stride);
      }
}

TEST(TextWindows, OfAShortTextAreNone) {
  EXPECT_TRUE(text_windows(counted(3), {4, 3, std::nullopt}).empty());
  EXPECT_EQ(text_windows(counted(3), {4, 3, 99}).size(), 1U);
  EXPECT_TRUE(text_windows({}, {2, 1, std::nullopt}).empty());
}

TEST(TextWindows, RefuseRulesThatCannotBe) {
  EXPECT_THROW(text_windows(counted(9), {1, 1, std::nullopt}), InvalidInput);
  EXPECT_THROW(text_windows(counted(9), {4, 0, std::nullopt}), InvalidInput);
  EXPECT_THROW(text_windows(counted(9), {4, 4, std::nullopt}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::evaluation
