#include "app/session/points_cache.hpp"

#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

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
  PointsCache cache;
  cache.put(points_of(0, 10));
  cache.put(points_of(0, 20));
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(cache.find({0, 0, 0})->n_tokens, 20);
}

}  // namespace
}  // namespace keyscope::session
