// One scale for several runs, where their numbers mean the same.

#include "app/figures/side_by_side.hpp"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

MeantScale scale(float low, float high, std::string meaning = "attention") {
  MeantScale meant{{}, std::move(meaning)};
  meant.scale.id = "attention";
  meant.scale.long_name = "attention received";
  meant.scale.low = low;
  meant.scale.high = high;
  return meant;
}

TEST(SharedScale, ReachesFromTheLeastToTheGreatest) {
  const auto shared = shared_scale({scale(0.2F, 1), scale(0.1F, 0.5F), scale(0.3F, 2)});
  ASSERT_TRUE(shared);
  EXPECT_FLOAT_EQ(shared->low, 0.1F);
  EXPECT_FLOAT_EQ(shared->high, 2);
  EXPECT_EQ(shared->long_name, "attention received");
}

TEST(SharedScale, IsThereOnlyForWhatMeansTheSame) {
  EXPECT_FALSE(shared_scale({}));
  EXPECT_FALSE(shared_scale({scale(0, 1, "score by keydiff"), scale(0, 1, "score by sink")}));
  MeantScale logarithmic = scale(0.1F, 1);
  logarithmic.scale.logarithmic = true;
  EXPECT_FALSE(shared_scale({scale(0.1F, 1), logarithmic}));
}

TEST(SharedScale, ScoresMeanWhatTheirPolicyMeans) {
  recording::RunPlan none, keydiff, sink;
  none.policy = "none", keydiff.policy = "keydiff", sink.policy = "sink";
  EXPECT_EQ(meaning_of(none, KeyColour::kScore), meaning_of(keydiff, KeyColour::kScore));
  EXPECT_NE(meaning_of(sink, KeyColour::kScore), meaning_of(keydiff, KeyColour::kScore));
  EXPECT_EQ(meaning_of(sink, KeyColour::kAttention), meaning_of(keydiff, KeyColour::kAttention));
}

}  // namespace
}  // namespace keyscope::figures
