#include "app/panels/palette.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/panels/action_target_double.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::window {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Opens the palette on what the target shows, and types.
PaletteList typed_into(NotingTarget& target, const std::string& text) {
  PaletteList list;
  list.start(palette_entries(target.session()));
  list.search(text, typed_entries(target.session(), text));
  return list;
}

TEST(Palette, OffersWhatTheRecordingHas) {
  NotingTarget target;
  const auto nothing_open = palette_entries(target.session()).size();
  target.session().show(session::small_recording());
  EXPECT_EQ(palette_entries(target.session()).size(),
            nothing_open + session::view_choices().size() + session::measure_choices().size() + 3 + 2)
      << "three policies, and two that could stand beside the selected one";
  const PaletteList list = typed_into(target, "sink");
  ASSERT_GT(list.size(), 0U);
  EXPECT_EQ(list.entry(0).name, "Policy: sink");
  EXPECT_EQ(list.entry(0).hint, "3");
  list.chosen()->act(target);
  EXPECT_EQ(target.session().state().run().plan.name, "sink");
}

TEST(Palette, PutsRunsBesideAndTakesThemAway) {
  NotingTarget target;
  target.session().show(session::small_recording());
  PaletteList list = typed_into(target, "beside sink");
  EXPECT_EQ(list.entry(0).name, "Beside: sink");
  EXPECT_EQ(list.entry(0).hint, "Shift + 3");
  list.chosen()->act(target);
  EXPECT_EQ(target.session().state().tiles.size(), 2U);
  list = typed_into(target, "beside sink");
  EXPECT_EQ(list.entry(0).name, "No longer beside: sink");
  list.chosen()->act(target);
  EXPECT_EQ(target.session().state().tiles.size(), 1U) << "the selected one alone";
}

TEST(Palette, RecentFilesAreOfferedAndMissingOnesSaid) {
  NotingTarget target;
  PaletteList list;
  list.start(palette_entries(target.session(), {{"/runs/a.h5", false}, {"/runs/gone.h5", true}}));
  list.search("gone.h5");
  EXPECT_EQ(list.entry(0).name, "Open gone.h5");
  EXPECT_THAT(list.entry(0).refusal, HasSubstr("/runs"));
  list.search("a.h5");
  EXPECT_EQ(list.entry(0).name, "Open a.h5");
  EXPECT_EQ(list.entry(0).hint, "/runs");
  list.chosen()->act(target);
  EXPECT_EQ(target.session().state().opening, "/runs/a.h5");
}

TEST(Palette, TypedNumbersComeFirst) {
  NotingTarget target;
  target.session().show(session::small_recording());
  const PaletteList list = typed_into(target, "layer 2 head 1");
  EXPECT_EQ(list.entry(0).name, "Layer 2, KV head 1");
  list.chosen()->act(target);
  EXPECT_EQ(target.session().state().selection.layer, 2);
  EXPECT_EQ(target.session().state().selection.kv_head, 1);
}

TEST(Palette, WhatCannotBeDoneIsShownWithTheReasonAndNotChosen) {
  NotingTarget target;
  const PaletteList list = typed_into(target, "export");
  EXPECT_EQ(list.entry(0).name, "Export this view");
  EXPECT_THAT(list.entry(0).refusal, HasSubstr("no recording is open"));
  EXPECT_EQ(list.chosen(), nullptr);
  target.session().show(session::small_recording());
  EXPECT_THAT(typed_into(target, "layer 17").entry(0).refusal, HasSubstr("0 to 3"));
}

TEST(Palette, ArrowsGoRoundPagesStopAtTheEnds) {
  PaletteList list;
  std::vector<PaletteEntry> entries;
  for (const char* name : {"a", "b", "c"}) entries.push_back({name, "", "", {}});
  list.start(entries);
  list.move(-1);
  EXPECT_EQ(list.cursor(), 2U);
  list.move(1);
  EXPECT_EQ(list.cursor(), 0U);
  list.move(10);
  EXPECT_EQ(list.cursor(), 2U);
  list.search("nothing of this");
  list.move(1);
  EXPECT_EQ(list.chosen(), nullptr);
}

TEST(Palette, EnterChoosesWhatTheArrowsPointAt) {
  NotingTarget target;
  Palette palette;
  palette.open(target.session(), {});
  EXPECT_TRUE(palette.takes({ImGuiKey_DownArrow, 0}));
  EXPECT_FALSE(palette.takes({ImGuiKey_Home, 0}));  // the field's
  EXPECT_FALSE(palette.take_key({ImGuiKey_DownArrow, 0}));
  const auto chosen = palette.take_key({ImGuiKey_Enter, 0});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->name, "Run a model");
  chosen->act(target);
  EXPECT_THAT(target.asked, ElementsAre("dialog 3"));
}

}  // namespace

}  // namespace keyscope::window
