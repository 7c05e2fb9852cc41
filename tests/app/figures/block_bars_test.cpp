// Neighbouring blocks as one bar, and none left out.

#include "app/figures/block_bars.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

using testing::ElementsAre;

TEST(BlockBars, CountWhatWentAtEachBlock) {
  const std::vector<std::int32_t> evicted_at{1, -1, 0, 1, 3, 1};
  EXPECT_THAT(evictions_per_block(evicted_at, 3), ElementsAre(1, 3, 0)) << "block 3 was not seen yet";
}

TEST(BlockBars, StandForOneBlockEachWhereThereIsRoom) {
  const std::vector<std::int32_t> evicted{0, 4, 2};
  EXPECT_THAT(block_bars(evicted, 3, 10),
              ElementsAre(BlockBar{0, 0, 0, 0}, BlockBar{1, 1, 4, 4}, BlockBar{2, 2, 2, 2}));
}

TEST(BlockBars, KeepLeastAndMostOfWhatTheyStandFor) {
  const std::vector<std::int32_t> evicted{0, 4, 2, 9, 1};
  EXPECT_THAT(block_bars(evicted, 5, 3),
              ElementsAre(BlockBar{0, 1, 0, 4}, BlockBar{2, 3, 2, 9}, BlockBar{4, 4, 1, 1}));
}

TEST(BlockBars, DoNotJoinThePromptWithWhatWasGenerated) {
  const std::vector<std::int32_t> evicted{8, 8, 8, 1, 1};
  EXPECT_THAT(block_bars(evicted, 3, 3),
              ElementsAre(BlockBar{0, 1, 8, 8}, BlockBar{2, 2, 8, 8}, BlockBar{3, 4, 1, 1}));
  EXPECT_EQ(block_bars(evicted, 3, 1).size(), 2U);
}

// Every block is in one bar, at any width.
TEST(BlockBars, LeaveNoBlockOut) {
  std::vector<std::int32_t> evicted(1000);
  for (std::size_t i = 0; i < evicted.size(); ++i) evicted[i] = static_cast<std::int32_t>(i * 37 % 101);
  for (const std::int64_t n_most : {2, 3, 7, 64, 999, 1000, 5000}) {
    const auto bars = block_bars(evicted, 700, n_most);
    EXPECT_LE(std::ssize(bars), n_most);
    std::int64_t next = 0;
    for (const BlockBar& bar : bars) {
      EXPECT_EQ(bar.first, next);
      std::int32_t least = 1 << 30, most = -1;
      for (std::int64_t block = bar.first; block <= bar.last; ++block) {
        least = std::min(least, evicted[block]);
        most = std::max(most, evicted[block]);
      }
      EXPECT_EQ(bar.least, least);
      EXPECT_EQ(bar.most, most);
      next = bar.last + 1;
    }
    EXPECT_EQ(next, 1000);
  }
  EXPECT_TRUE(block_bars({}, 0, 10).empty());
}

}  // namespace
}  // namespace keyscope::figures
