// The story of the held token.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/app/session/settled_session.hpp"

namespace keyscope::session {
namespace {

TEST(SessionStory, IsToldOfTheHeldTokenAndFollowsTheHead) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording, {.run = "keydiff", .token = 5});
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(session.state().story.story) << session.state().story.error;
  EXPECT_EQ(session.state().story.key, (StoryKey{{1, 0, 0}, 5, 5}));
  EXPECT_FALSE(session.state().telling);
  const std::atomic<bool> go_on = false;
  const auto told = measures::tell_token(*recording, {1, 0, 0}, 5, go_on);
  EXPECT_EQ(measures::token_story_json(*recording->info(), *session.state().story.story),
            measures::token_story_json(*recording->info(), told))
      << "what `inspect --token` writes";
  session.select_head(2, 1);
  EXPECT_FALSE(session.state().story.story) << "that was another head's";
  EXPECT_TRUE(session.state().telling);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().story.story->head.layer, 2);
  session.set_block(1);
  EXPECT_TRUE(session.state().story.story) << "a story is of all blocks";
  session.release();
  EXPECT_FALSE(session.state().story.story);
  EXPECT_FALSE(session.state().telling);
}

TEST(SessionStory, OfTheLastTokenHeldIsTheOneThatIsShown) {
  Session session({});
  session.show(small_recording());
  for (std::int64_t token = 0; token < 40; ++token) session.lock(token);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().story.story->position, 39);
  session.lock(7);
  session.release();
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().story.story) << "released before it came";
}

TEST(SessionStory, SaysWhyThereIsNone) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->break_keys();
  session.lock(3);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().story.story);
  EXPECT_THAT(session.state().story.error, ::testing::HasSubstr("damaged"));
}

}  // namespace
}  // namespace keyscope::session
