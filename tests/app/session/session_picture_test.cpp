// The session's look, its picture, and the tokens that are selected in it.

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/app/session/settled_session.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using figures::KeyColour;
using figures::Projection;

TEST(SessionPicture, TheUsualLookIsThereWithTheHead) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(session.state().picture);
  EXPECT_EQ(session.state().picture->key.head, session.state().head());
  session.set_block(1);
  EXPECT_EQ(session.state().picture->key.block, 1) << "at once, without a worker";
  EXPECT_FALSE(session.state().drawing);
}

TEST(SessionPicture, AnotherLookIsMadeByAWorkerAndKept) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  const auto before = session.state().picture;
  session.choose_look({Projection::kAnchor, KeyColour::kPosition, true});
  EXPECT_TRUE(session.state().drawing);
  EXPECT_TRUE(session.busy());
  EXPECT_EQ(session.state().picture, before) << "is shown meanwhile";
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().drawing);
  const auto& panel = session.state().picture->panel;
  EXPECT_EQ(panel.x.label, "cosine to the anchor");
  EXPECT_EQ(panel.points.front().id, "queries");
  EXPECT_TRUE(panel.scale);
  session.select_head(2, 1);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().picture->key.look.projection, Projection::kAnchor);
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().picture->key.look.colour, KeyColour::kPosition) << "another recording";
}

TEST(SessionPicture, QuicklyLeftLooksEndInTheLastOne) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  for (int i = 0; i < 30; ++i) {
    session.set_block(i % 5);
    session.choose_look({i % 2 == 0 ? Projection::kAnchor : Projection::kPca3d, KeyColour::kDecision, true});
  }
  session.set_block(3);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().picture->key.block, 3);
  EXPECT_EQ(session.state().picture->key.look, session.state().look);
}

TEST(SessionPicture, ADamagedFileStillShowsWhatWasRead) {
  auto recording = small_recording();
  Session session([] {});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->break_queries();
  session.choose_look({.queries = true});
  ASSERT_TRUE(settle(session));
  EXPECT_NE(session.state().picture->refusal.find("damaged"), std::string::npos);
  EXPECT_FALSE(session.state().picture->panel.points.empty());
}

TEST(SelectedTokens, AreUndoneAndReleased) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().tokens);
  session.select_tokens({3, 5});
  session.select_tokens({7});
  session.select_head(1, 1);
  EXPECT_EQ(*session.state().tokens, TokenSet{7}) << "tokens are those of every head";
  session.undo();
  session.undo();
  EXPECT_EQ(*session.state().tokens, (TokenSet{3, 5}));
  session.undo();
  EXPECT_FALSE(session.state().tokens);
  session.redo();
  EXPECT_EQ(*session.state().tokens, (TokenSet{3, 5}));
  session.release();
  EXPECT_FALSE(session.state().tokens);
  session.undo();
  EXPECT_EQ(*session.state().tokens, (TokenSet{3, 5})) << "Esc can be undone";
}

TEST(SelectedTokens, AreWhatIsExported) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.set_block(0);  // 64 tokens
  session.select_tokens({2, 9, 300});
  const test::ScratchFolder folder;
  session.export_view(folder.file("tokens.csv"), false);
  ASSERT_TRUE(settle(session));
  std::ostringstream text;
  text << std::ifstream(folder.file("tokens.csv")).rdbuf();
  const std::string csv = text.str();
  EXPECT_EQ(std::ranges::count(csv, '\r'), 3) << "a heading and two tokens; the third is still to come";
  EXPECT_NE(csv.find("\n2,2,\" of\""), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n9,9,\" seven\""), std::string::npos) << csv;
}

}  // namespace
}  // namespace keyscope::session
