#include "app/panels/actions.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/panels/action_target_double.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::window {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Actions, EachHasANameOfItsOwn) {
  std::set<std::string_view> ids, names;
  for (const Action& each : actions()) {
    EXPECT_TRUE(ids.insert(each.id).second) << each.id;
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_EQ(&action(each.id), &each);
  }
}

// Two actions may share a key only if they never can be done at the same time.
TEST(Actions, AKeyMeansOneThingAtATime) {
  NotingTarget target;
  target.session().show(session::small_recording());
  std::set<std::tuple<int, int>> taken;
  for (const Action& each : actions())
    for (const Shortcut& keys : {each.shortcut, each.other})
      for (int nth = 0; keys.key != 0 && nth < keys.n_keys; ++nth) {
        if (!each.refusal(target.session()).empty()) continue;
        EXPECT_TRUE(taken.insert({keys.key + nth, keys.modifiers}).second) << each.id;
      }
}

TEST(Actions, ShortcutsAreSaidAsTheyArePressed) {
  EXPECT_EQ(shortcut_text(action("open").shortcut), "Ctrl + O");
  EXPECT_EQ(shortcut_text(action("redo").other), "Ctrl + Shift + Z");
  EXPECT_EQ(shortcut_text(action("help").shortcut), "?");
  EXPECT_EQ(shortcut_text(action("run").shortcut), "1 … 9");
  EXPECT_EQ(shortcut_text(action("previous_head").shortcut), "Shift + ←");
  EXPECT_EQ(shortcut_text({}), "");
}

TEST(Actions, KeysReachTheWindowAndTheSession) {
  NotingTarget target;
  EXPECT_TRUE(perform_key({ImGuiKey_O, ImGuiMod_Ctrl}, false, target));
  EXPECT_TRUE(perform_key({ImGuiKey_T, ImGuiMod_Ctrl}, true, target));
  EXPECT_THAT(target.asked, ElementsAre("dialog 1", "theme"));
  target.session().show(session::small_recording());
  EXPECT_TRUE(perform_key({ImGuiKey_3, 0}, false, target));
  EXPECT_EQ(target.session().state().selection.run, 2);
  EXPECT_TRUE(perform_key({ImGuiKey_1, ImGuiMod_Shift}, false, target));
  EXPECT_EQ(target.session().state().tiles.size(), 2U) << "the first run stands beside the third";
  EXPECT_TRUE(perform_key({ImGuiKey_RightArrow, ImGuiMod_Shift}, false, target));
  EXPECT_EQ(target.session().state().selection.kv_head, 1);
  EXPECT_TRUE(perform_key({ImGuiKey_Home, 0}, false, target));
  EXPECT_EQ(target.session().state().selection.block, 0);
}

TEST(Actions, DialogsAndFieldsKeepTheKeysThatAreTheirs) {
  NotingTarget target;
  target.session().show(session::small_recording());
  const auto before = target.session().state().selection;
  EXPECT_FALSE(perform_key({ImGuiKey_Home, 0}, true, target));
  EXPECT_FALSE(perform_key({ImGuiKey_2, 0}, true, target));
  EXPECT_FALSE(perform_key({ImGuiKey_Z, ImGuiMod_Ctrl}, true, target));
  EXPECT_EQ(target.session().state().selection, before);
  EXPECT_FALSE(perform_key({ImGuiKey_J, ImGuiMod_Ctrl}, false, target));
  EXPECT_THAT(target.asked, IsEmpty());
}

TEST(Actions, TheCommandIsCopiedAndSaid) {
  NotingTarget target;
  EXPECT_TRUE(perform_key({ImGuiKey_C, ImGuiMod_Ctrl | ImGuiMod_Shift}, false, target));
  EXPECT_THAT(target.asked, IsEmpty());
  target.session().show(session::small_recording());
  EXPECT_TRUE(perform_key({ImGuiKey_C, ImGuiMod_Ctrl | ImGuiMod_Shift}, false, target));
  ASSERT_EQ(target.asked.size(), 1U);
  EXPECT_THAT(target.asked[0], HasSubstr("--run keydiff --layer 0 --kv-head 0 --block 4 --view keyspace"));
  EXPECT_THAT(target.session().state().notice.text, HasSubstr(target.asked[0].substr(5)));
}

TEST(Actions, WhatCannotBeDoneSaysWhy) {
  NotingTarget target;
  EXPECT_TRUE(perform_key({ImGuiKey_E, ImGuiMod_Ctrl}, false, target));
  EXPECT_THAT(target.asked, IsEmpty());
  EXPECT_THAT(target.session().state().notice.text, HasSubstr("no recording is open"));
}

}  // namespace
}  // namespace keyscope::window
