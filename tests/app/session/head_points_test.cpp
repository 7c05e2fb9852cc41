#include "app/session/head_points.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "app/session/tokens.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

namespace {

TEST(BasisCache, FindsWhatWasFittedOnly) {
  const SyntheticRecording recording({.n_tokens = 128});
  BasisCache cache;
  EXPECT_EQ(cache.find(*recording.info(), 1, 2), nullptr);
  const auto basis = cache.get(recording, *recording.info(), 1, 2);
  EXPECT_EQ(cache.find(*recording.info(), 1, 2), basis);
  EXPECT_EQ(cache.get(recording, *recording.info(), 1, 2), basis);
  EXPECT_EQ(cache.find(*recording.info(), 1, 1), nullptr);
}

TEST(BasisCache, GivesAllThreadsTheSame) {
  const SyntheticRecording recording({.n_tokens = 2048});
  for (int round = 0; round < 10; ++round) {
    BasisCache cache;
    std::vector<std::shared_ptr<const figures::KeyspaceBasis>> bases(4);
    {
      std::vector<std::jthread> threads;
      for (auto& basis : bases)
        threads.emplace_back([&] { basis = cache.get(recording, *recording.info(), 0, 0); });
    }
    for (const auto& basis : bases) EXPECT_EQ(basis, bases.front());
  }
}

// A recording that pretends to be shorter than it is, as a live one was a moment ago.
recording::RecordingInfo shortened(const SyntheticRecording& recording, std::int64_t n_blocks) {
  recording::RecordingInfo info = *recording.info();
  for (auto& run : info.runs) {
    run.blocks_done = n_blocks;
    run.block_start.resize(n_blocks);
    run.n_tokens = n_blocks * kFiveBlocks.block_size;
  }
  return info;
}

TEST(HeadPoints, GrowsWithALiveRecordingToWhatOneReadingGives) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto whole = read_at_once(recording, {1, 0, 1});
  const HeadKey head{1, 0, 1};
  std::shared_ptr<const HeadPoints> grown;
  for (const std::int64_t n_blocks : {1, 2, 4})
    grown = read_head_points(recording, shortened(recording, n_blocks), head, whole->basis, grown.get());
  grown = read_head_points(recording, *recording.info(), head, whole->basis, grown.get());
  EXPECT_EQ(grown->n_tokens, whole->n_tokens);
  EXPECT_EQ(grown->seen, whole->seen);
  EXPECT_EQ(grown->keys, whole->keys);
  EXPECT_EQ(grown->coordinates, whole->coordinates);
  EXPECT_LT((grown->mean_key - whole->mean_key).norm(), 1e-12 * whole->mean_key.norm());
  EXPECT_LT((grown->mean_query - whole->mean_query).norm(), 1e-12 * whole->mean_query.norm());
}

TEST(TokenFacts, TellATokensStory) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto points = read_at_once(recording, {1, 0, 0});
  const auto& evicted_at = points->trace.evicted_at;
  const auto gone = std::ranges::find_if(evicted_at, [](std::int32_t block) { return block >= 1; });
  ASSERT_NE(gone, evicted_at.end());
  const std::int64_t position = gone - evicted_at.begin();
  const TokenFacts before = token_facts(*recording.info(), *points, *gone - 1, position);
  const TokenFacts after = token_facts(*recording.info(), *points, *gone, position);
  EXPECT_TRUE(before.retained);
  EXPECT_FALSE(after.retained);
  EXPECT_EQ(before.evicted_at, *gone);
  EXPECT_EQ(after.arrived, position / kFiveBlocks.block_size);
  EXPECT_EQ(after.id, static_cast<std::int32_t>(position % 10));
  ASSERT_TRUE(after.evicted_margin);
  ASSERT_TRUE(after.attention_per_query);
  EXPECT_DOUBLE_EQ(*after.attention_per_query * static_cast<double>(kFiveBlocks.n_tokens - position),
                   *after.attention_received);

  // The score by hand: -cos(key, mean of the keys seen).
  const Eigen::VectorXd key = points->keys.row(position).transpose().cast<double>();
  const Eigen::VectorXd mean =
      points->keys.topRows(points->seen[*gone]).cast<double>().colwise().mean().transpose();
  EXPECT_NEAR(*after.score, -key.dot(mean) / (key.norm() * mean.norm()), 1e-12);
}

TEST(TokenFacts, TextIsKnownOnlyForTokensThatAre) {
  const SyntheticRecording recording(kFiveBlocks);
  EXPECT_EQ(measures::token_bytes(*recording.info(), 1, 0), " the");
  EXPECT_EQ(measures::token_bytes(*recording.info(), 1, kFiveBlocks.n_tokens), "");
  EXPECT_EQ(measures::token_bytes(*recording.info(), 1, -1), "");
}

std::shared_ptr<const HeadPoints> points_of(int layer, std::int64_t n_tokens) {
  auto points = std::make_shared<HeadPoints>();
  points->head.layer = layer;
  points->n_tokens = n_tokens;
  points->keys.resize(n_tokens, 8);
  return points;
}

TEST(PointsCache, DropsTheLeastRecentlyUsed) {
  const std::size_t one = points_of(0, 100)->bytes();
  PointsCache cache(2 * one);
  cache.put(points_of(0, 100));
  cache.put(points_of(1, 100));
  EXPECT_NE(cache.find({0, 0, 0}), nullptr);  // now layer 1 is the older one
  cache.put(points_of(2, 100));
  EXPECT_EQ(cache.find({0, 1, 0}), nullptr);
  EXPECT_NE(cache.find({0, 0, 0}), nullptr);
  EXPECT_NE(cache.find({0, 2, 0}), nullptr);
}

TEST(PointsCache, KeepsTheNewestWhateverItsSize) {
  PointsCache cache(10);
  cache.put(points_of(0, 1000));
  EXPECT_NE(cache.find({0, 0, 0}), nullptr);
}

TEST(PointsCache, ALongerReadingReplacesTheShorter) {
  PointsCache cache(std::size_t{1} << 20U);
  cache.put(points_of(0, 10));
  cache.put(points_of(0, 20));
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(cache.find({0, 0, 0})->n_tokens, 20);
}

}  // namespace

}  // namespace keyscope::session
