#include "app/session/export_view.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/session/keyspace_view.hpp"
#include "base/files.hpp"
#include "tests/app/session/live_capture_double.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ViewCommand, NamesFileSelectionAndView) {
  Session session({});
  session.show(small_recording(), {.run = "sink", .layer = 2, .kv_head = 1, .block = 3});
  const std::string source = std::filesystem::absolute(session.state().path).string();
  EXPECT_THAT(view_command(session.state()),
              AllOf(StartsWith("keyscope view "), HasSubstr(source),
                    EndsWith("--fresh --run sink --layer 2 --kv-head 1 --block 3 --view keyspace")));
  session.choose_view("text");
  EXPECT_THAT(view_command(session.state()), EndsWith("--view text"));
}

TEST(ViewCommand, OfAFigureHasOnlyWhatTheFigureUnderstands) {
  Session session({});
  session.show(small_recording(), {.run = "sink", .layer = 2, .kv_head = 1, .block = 3});
  session.choose_view("cosine-matrix");
  EXPECT_THAT(
      view_command(session.state()),
      AllOf(StartsWith("keyscope figure "), HasSubstr(" cosine-matrix --run sink --layer 2 --kv-head 1"),
            EndsWith(" --out cosine-matrix.svg")));
  session.choose_view("block-times");
  EXPECT_THAT(view_command(session.state()), EndsWith(" block-times --out block-times.svg"));
}

TEST(ViewCommand, SaysHowThingsAreLookedAt) {
  Session session({});
  session.show(small_recording(), {.run = "sink"});
  session.choose_look({figures::Projection::kAnchor, figures::KeyColour::kPosition, true});
  session.lock(5);
  EXPECT_THAT(view_command(session.state()),
              EndsWith("--view keyspace --token 5 --projection anchor --colour position --queries"));
  session.set_figure_settings({.ranks = true});
  session.choose_view("score-attention");
  EXPECT_THAT(view_command(session.state()), HasSubstr(" --ranks --out "));
}

TEST(ViewCommand, OfRunsSideBySideHasTheSettingsThatTheFigureUnderstands) {
  Session session({});
  session.show(small_recording(), {.run = "sink", .layer = 2, .beside = {"keydiff"}});
  session.set_figure_settings({.ranks = true,
                               .linear = true,
                               .retained_only = true,
                               .order = figures::MatrixOrder::kDendrogram,
                               .reduction = figures::Reduction::kMax});
  session.choose_view("cosine-matrix");
  ASSERT_TRUE(session.state().comparing(session.state().view));
  EXPECT_THAT(view_command(session.state()),
              AllOf(StartsWith("keyscope view "),
                    EndsWith("--view cosine-matrix --beside keydiff --retained --order dendrogram "
                             "--reduce max")));
  session.choose_view("score-attention");
  EXPECT_THAT(view_command(session.state()), EndsWith("--view score-attention --beside keydiff --ranks"));
  session.choose_view("keyspace");
  EXPECT_THAT(view_command(session.state()), EndsWith("--view keyspace --beside keydiff"));
}

// A look that was chosen for another recording asks for what this one may not hold.
TEST(PossibleLook, LeavesOutWhatWasNotRecorded) {
  const figures::KeyspaceLook wanted{figures::Projection::kAnchor, figures::KeyColour::kMargin, true};
  recording::RecordingInfo info = *small_recording()->info();
  EXPECT_EQ(possible_look(info, 1, wanted).look, wanted);
  EXPECT_EQ(possible_look(info, 1, wanted).refusal, "");
  info.queries = false;
  const PossibleLook possible = possible_look(info, 0, wanted);
  EXPECT_EQ(possible.look, (figures::KeyspaceLook{figures::Projection::kAnchor}));
  EXPECT_THAT(possible.refusal, AllOf(HasSubstr("margins"), HasSubstr("queries were not recorded")));
}

TEST(ExportRefusal, IsSaidBeforeAnythingIsMade) {
  const test::ScratchFolder folder;
  write_file(folder.file("there.svg"), "mine", false);
  EXPECT_EQ(export_refusal("keyspace", folder.file("new.svg"), false), "");
  EXPECT_EQ(export_refusal("keyspace", folder.file("there.svg"), true), "");
  EXPECT_THAT(export_refusal("keyspace", folder.file("there.svg"), false), HasSubstr("tick Replace"));
  EXPECT_THAT(export_refusal("keyspace", folder.file("none/new.svg"), false), HasSubstr("folder"));
  EXPECT_THAT(export_refusal("keyspace", folder.file("new.jpg"), false), HasSubstr("'.jpg'"));
  EXPECT_THAT(export_refusal("text", folder.file("new.svg"), false), HasSubstr("no picture"));
  EXPECT_THAT(export_refusal("text", folder.file("new.csv"), false), "");
  EXPECT_THAT(export_refusal("head-map", folder.file("new.html"), false), HasSubstr("key space"));
  EXPECT_THAT(export_refusal("head-map", folder.file("new.apng"), false), HasSubstr("block to block"));
  EXPECT_THAT(path_refusal("", false), HasSubstr("name of a file"));
}

// What is turned and counted on the screen is so on the page.
TEST(ShownFigure, IsSeenFromWhereTheScreenSeesIt) {
  const auto recording = small_recording();
  ShownView shown;
  shown.view = kKeyspaceView;
  shown.selection = {.run = 1, .layer = 0, .kv_head = 0, .block = 4};
  shown.runs = {{recording, recording->info(), {0, 1}, 4}};
  shown.look.projection = figures::Projection::kPca3d;
  shown.panels = {{{}, {}, {0.3, -0.2}, 0.25}};
  JobWatch job("a figure");
  const figures::Panel panel = shown_figure(shown, job).panels.front();
  EXPECT_EQ(panel.orbit, (figures::Orbit{0.3, -0.2}));
  EXPECT_EQ(panel.hexagon, 0.25);
}

TEST(ViewCommand, WhatHasNoFileHasNone) {
  Session session({});
  EXPECT_EQ(view_command_refusal(session.state()), "nothing is open");
  session.start_live(invented_capture(3));
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(std::string(view_command_refusal(session.state())), HasSubstr("memory"));
  session.start_live(invented_capture(3), {}, "a folder/live.h5");
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(view_command_refusal(session.state()), "");
  EXPECT_THAT(view_command(session.state()), HasSubstr("a folder/live.h5' --fresh --run sink"));
}

}  // namespace
}  // namespace keyscope::session
