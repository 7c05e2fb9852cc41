#include "app/session/selection_history.hpp"

#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

SelectionHistory::Moment head(int layer, std::int64_t block = 0) {
  return {{1, layer, 0, block}, "keyspace", {}};
}

TEST(SelectionHistory, GoesBackAndForth) {
  SelectionHistory history;
  EXPECT_EQ(history.undo(), std::nullopt);
  for (const int layer : {0, 1, 2}) history.note(head(layer));
  EXPECT_EQ(history.undo(), head(1));
  EXPECT_EQ(history.undo(), head(0));
  EXPECT_EQ(history.undo(), std::nullopt) << "where it began";
  EXPECT_EQ(history.redo(), head(1));
  EXPECT_EQ(history.redo(), head(2));
  EXPECT_EQ(history.redo(), std::nullopt);
}

TEST(SelectionHistory, ForgetsWhatWasUndoneWhenAnotherWayIsTaken) {
  SelectionHistory history;
  for (const int layer : {0, 1, 2}) history.note(head(layer));
  history.undo();
  history.note(head(7));
  EXPECT_FALSE(history.can_redo());
  EXPECT_EQ(history.undo(), head(1));
}

TEST(SelectionHistory, TakesAWalkThroughBlocksAsOneStep) {
  SelectionHistory history;
  history.note(head(0, 0));
  for (int block = 1; block < 20; ++block) history.note(head(0, block));
  history.note(head(1, 19));
  for (int block = 18; block > 9; --block) history.note(head(1, block));
  EXPECT_EQ(history.undo(), head(1, 19));
  EXPECT_EQ(history.undo(), head(0, 19));
  EXPECT_EQ(history.undo(), head(0, 0));
}

TEST(SelectionHistory, HoldsTokensAndViewsAsWell) {
  SelectionHistory history;
  history.note({{}, "keyspace", {}});
  history.note({{}, "keyspace", 5});
  history.note({{}, "text", 5});
  history.note({{}, "text", 5});
  EXPECT_EQ(history.undo()->view, "keyspace");
  EXPECT_EQ(history.undo()->locked, std::nullopt);
  EXPECT_FALSE(history.can_undo());
}

TEST(SelectionHistory, KeepsABoundedNumber) {
  SelectionHistory history;
  for (int layer = 0; layer < 1000; ++layer) history.note(head(layer));
  int n = 0;
  while (history.undo()) ++n;
  EXPECT_EQ(n, static_cast<int>(SelectionHistory::kMost) - 1);
  EXPECT_EQ(history.redo(), head(1000 - static_cast<int>(SelectionHistory::kMost) + 1));
}

}  // namespace
}  // namespace keyscope::session
