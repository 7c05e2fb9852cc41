#include "app/session/session.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "app/figures/nexus.hpp"
#include "app/session/export_view.hpp"
#include "capture/recording/records.hpp"
#include "tests/app/session/live_capture_double.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Session, ShowsTheSelectedHeadAndMeasuresItsRun) {
  Session session({});
  session.show(small_recording());
  EXPECT_TRUE(session.state().selected().reading);
  ASSERT_TRUE(settle(session));
  const SessionState& state = session.state();
  EXPECT_FALSE(state.selected().reading);
  ASSERT_TRUE(state.selected().points);
  EXPECT_EQ(state.selected().points->head, (HeadKey{1, 0, 0}));
  EXPECT_EQ(state.measured.size(), 32U) << "its own heads, and those of none for what speaks of the model";
  EXPECT_TRUE(state.measured.at({0, 3, 3}).measures.spearman);
  EXPECT_TRUE(state.measured.at({1, 3, 3}).measures.log_volume_nats);
}

TEST(Session, SelectingAHeadReadsItOnceAndKeepsIt) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  session.select_head(2, 3);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selected().points->head, (HeadKey{1, 2, 3}));
  const auto reads = recording->key_reads();
  session.select_head(0, 0);
  session.select_head(2, 3);
  EXPECT_EQ(session.state().selected().points->head, (HeadKey{1, 2, 3}));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(recording->key_reads(), reads);
}

TEST(Session, SwitchingThePolicyKeepsHeadBlockAndBasis) {
  Session session({});
  session.show(small_recording(), {.layer = 2, .kv_head = 1, .block = 3});
  ASSERT_TRUE(settle(session));
  const auto basis = session.state().selected().points->basis;
  session.select_run(2);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selection, (Selection{2, 2, 1, 3}));
  EXPECT_EQ(session.state().selected().points->basis, basis);
  session.select_run(7);  // there is none
  EXPECT_EQ(session.state().selection.run, 2);
}

TEST(Session, BlocksAreClampedAndPlayed) {
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.set_block(99);
  EXPECT_EQ(session.state().selection.block, 4);
  session.step_block(-100);
  EXPECT_EQ(session.state().selection.block, 0);
  session.show_last_block();
  session.toggle_play();  // from the end: begins again
  EXPECT_EQ(session.state().selection.block, 0);
  for (int i = 0; i < 4; ++i) session.play_on();
  EXPECT_EQ(session.state().selection.block, 4);
  EXPECT_FALSE(session.state().playing);
}

TEST(Session, LayersAndHeadsStopAtTheEdges) {
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.move_layer(-1);
  EXPECT_EQ(session.state().selection.layer, 0);
  session.move_layer(99);
  EXPECT_EQ(session.state().selection.layer, 3);
  session.move_kv_head(99);
  EXPECT_EQ(session.state().selection.kv_head, 3);
}

TEST(Session, AHeadWithoutRowsIsNotSelected) {
  SyntheticSize size = kSmall;
  size.heads = {1, 3};
  Session session({});
  session.show(std::make_shared<SyntheticRecording>(size));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selection.kv_head, 1);
  session.select_head(0, 2);
  EXPECT_EQ(session.state().selection.kv_head, 1);
  EXPECT_EQ(session.state().notice.text, "KV head 2 was not recorded; recorded are 1, 3");
  session.move_kv_head(1);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selected().points->head.kv_head, 3);
  EXPECT_EQ(session.state().measured.size(), 32U) << "the map is of all heads";
}

TEST(Session, AMissingFileLeavesWhatIsOpen) {
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.open("/nowhere/at/all.h5");
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().loaded());
  EXPECT_THAT(session.state().open_error, HasSubstr("/nowhere/at/all.h5"));
  EXPECT_TRUE(session.state().notice.error);
}

TEST(Session, ACorruptFileIsAnErrorState) {
  const auto path = std::filesystem::temp_directory_path() / "session_test_corrupt.h5";
  std::ofstream(path) << "\x89HDF\r\n\x1a\n and then nothing that makes sense";
  Session session({});
  session.open(path);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().loaded());
  EXPECT_THAT(session.state().open_error, HasSubstr("session_test_corrupt.h5"));
  std::filesystem::remove(path);
}

TEST(Session, DamageFoundWhileReadingIsAMessage) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->break_keys();
  session.select_head(3, 3);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().notice.error; }));
  EXPECT_THAT(session.state().notice.text, HasSubstr("the bytes are damaged"));
  EXPECT_EQ(session.state().selected().points->head, (HeadKey{1, 0, 0}));  // what was there stays
  EXPECT_TRUE(settle(session)) << "nothing is waited for any more";
}

TEST(Session, AnUnknownSelectionIsSaidAndTheDefaultShown) {
  Session session({});
  session.show(small_recording(), {.run = "h2o"});
  EXPECT_TRUE(session.state().notice.error);
  EXPECT_THAT(session.state().notice.text, HasSubstr("h2o"));
  EXPECT_EQ(session.state().selection.run, 1);
}

TEST(Session, FollowsALiveRunBlockByBlock) {
  Session session({});
  session.start_live(invented_capture(6));
  // The worker may be done before its last blocks have been drained.
  ASSERT_TRUE(drain_until(session, [&] {
    return session.live_status()->stage == LiveStage::kDone && session.state().selection.block == 5 &&
           session.state().run().plan.name == "sink";  // the newest run
  }));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selection.block, 5);
  EXPECT_EQ(session.state().selected().points->n_tokens, 48);
  EXPECT_FALSE(session.busy());
}

// Numbers and axes are of all tokens that were read, though these have not doubled since the last time.
TEST(Session, AHaltedLiveRunIsShownAsItStands) {
  Session session({});
  session.start_live(invented_capture(6), {}, {}, true);
  for (const std::int64_t n_tokens : {8, 16, 24, 32, 40}) {
    session.live()->step();
    const auto is_of_all = [&] {
      const SessionState& state = session.state();
      const auto& points = state.selected().points;
      return state.measured.size() == 2 && points && points->basis->n_tokens == n_tokens &&
             std::ranges::all_of(state.measured,
                                 [&](const auto& head) { return head.second.n_tokens == n_tokens; }) &&
             state.map.of_first == 0;
    };
    ASSERT_TRUE(drain_until(session, is_of_all)) << "after " << n_tokens << " tokens";
  }
  session.live()->cancel();
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selected().points->basis->n_tokens, session.state().run().n_tokens);
}

TEST(Session, MeasuresTheRunThatItIsComparedWithAndTheFullCache) {
  Session session({});
  session.show(small_recording(), {.run = "keydiff", .measure = "retained_overlap", .reference = "sink"});
  ASSERT_TRUE(settle(session));
  for (const int run : {0, 1, 2})
    EXPECT_TRUE(session.state().measured.contains({run, session.state().selection.layer, 0}))
        << "run " << run;
}

TEST(Session, ChoosingABlockStopsFollowing) {
  Session session({});
  session.start_live(invented_capture(6));
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().following);
  session.set_block(2);
  EXPECT_FALSE(session.state().following);
  EXPECT_EQ(session.state().selection.block, 2);
}

TEST(Session, AFailedLiveRunSaysWhy) {
  Session session({});
  session.start_live(invented_capture(6, 0));
  ASSERT_TRUE(drain_until(session, [&] { return session.live_status()->stage == LiveStage::kFailed; }));
  EXPECT_EQ(session.live_status()->message, "the invented model broke");
}

TEST(Session, ASecondLiveRunWaitsForTheFirstToEnd) {
  Session session({});
  session.start_live(invented_capture(100000));
  session.start_live(invented_capture(1));
  EXPECT_TRUE(session.state().notice.error);
  session.live()->cancel();
  ASSERT_TRUE(drain_until(session, [&] { return !session.live_status()->going_on(); }));
  session.start_live(invented_capture(1));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.live_status()->stage, LiveStage::kDone);
}

TEST(Session, HoverAndHold) {
  Session session({});
  session.show(small_recording());
  session.hover(5);
  session.lock(9);
  EXPECT_EQ(session.state().token(), 5);
  session.hover(std::nullopt);
  EXPECT_EQ(session.state().token(), 9);
  session.release();
  EXPECT_EQ(session.state().token(), std::nullopt);
}

TEST(Session, OpensAFigureFileAndSelectsWithinIt) {
  const test::ScratchFolder folder;
  const auto path = folder.file("figures.h5");
  const auto info = small_recording()->info();
  figures::Figure first, second;
  first.name = "first";
  second.name = "second";
  for (figures::Figure* figure : {&first, &second}) {
    figures::Panel& panel = figure->panels.emplace_back();
    panel.id = figure->name;
    figures::PointSeries& points = panel.points.emplace_back();
    points.id = "retained";
    points.x = {1};
    points.y = {2};
  }
  figures::write_nexus(path, {first, second}, {info->provenance, info->model, info->prompt});
  Session session({});
  session.open(path);
  ASSERT_TRUE(settle(session));
  const SessionState& state = session.state();
  ASSERT_TRUE(state.figure_file) << state.open_error;
  EXPECT_FALSE(state.loaded());
  ASSERT_EQ(state.figure_file->figures.size(), 2U);
  session.select_figure(7);
  EXPECT_EQ(state.figure, 1U);
  session.select_figure(-1);
  EXPECT_EQ(state.figure, 0U);
  session.show(small_recording());
  EXPECT_FALSE(state.figure_file) << "a recording takes its place";
}

// Two recordings in one file.
void write_study(const std::filesystem::path& path) {
  recording::SyntheticCapture capture;
  const auto writer = recording::make_recording_writer(path, false);
  capture.send(*writer);
  writer->end(true);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ocopy(file, "/entry", file, "/entry_2", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
}

TEST(Session, ShowsEachRecordingOfAFile) {
  const test::ScratchFolder folder;
  const auto path = folder.file("study.h5");
  write_study(path);
  const std::string first = path.string() + "::entry", second = path.string() + "::entry_2";
  Session session({});
  session.open(path);
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(session.state().loaded());
  EXPECT_THAT(session.state().documents, ElementsAre(first, second));
  EXPECT_EQ(session.state().document, 0);
  for (const auto& [by, shown] : {std::pair(1, second), std::pair(1, first), std::pair(-1, second)}) {
    session.open_document(by);
    ASSERT_TRUE(settle(session));
    EXPECT_EQ(session.state().path, shown);
    EXPECT_EQ(session.state().documents[session.state().document], shown);
  }
  session.show(small_recording());
  EXPECT_TRUE(session.state().documents.empty());
}

TEST(Session, AFigureFileWithoutFiguresSaysSo) {
  const test::ScratchFolder folder;
  const auto path = folder.file("empty.h5");
  const auto info = small_recording()->info();
  figures::write_nexus(path, {}, {info->provenance, info->model, info->prompt});
  Session session({});
  session.open(path);
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().open_error, HasSubstr("no figure"));
}

TEST(Session, ALiveRunInMemoryIsKeptWhenAnotherBegins) {
  Session session({});
  session.start_live(invented_capture(6));
  ASSERT_TRUE(settle(session));
  const auto first = session.state().recording;
  session.start_live(invented_capture(3));
  ASSERT_TRUE(settle(session));
  ASSERT_EQ(session.state().earlier.size(), 1U);
  EXPECT_THAT(session.state().earlier[0].name, HasSubstr("none, sink"));
  EXPECT_THAT(session.state().notice.text, HasSubstr("kept"));
  session.show_earlier(0);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().recording, first);
  EXPECT_EQ(session.state().run().blocks_done, 6);
  EXPECT_EQ(session.state().earlier.size(), 1U);  // the one that was shown
  session.show_earlier(7);                        // there is none
  EXPECT_EQ(session.state().recording, first);
}

TEST(Session, ALiveRunInMemoryIsSavedAndThenLiesInItsFile) {
  const test::ScratchFolder folder;
  Session session({});
  EXPECT_EQ(session.save_refusal(), "nothing is open");
  session.start_live(invented_capture(6));
  ASSERT_TRUE(settle(session));
  ASSERT_EQ(session.save_refusal(), "");
  std::ofstream(folder.file("mine.h5")) << "mine";
  session.save_recording(folder.file("mine.h5"), false);
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().notice.error) << "a file is only replaced when that is asked for";
  session.save_recording(folder.file("run.h5"), false);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
  EXPECT_EQ(session.state().path, folder.file("run.h5").string());
  EXPECT_EQ(session.save_refusal(), "it lies in a file");
  EXPECT_THAT(view_command(session.state()), HasSubstr("run.h5"));
  const auto saved = recording::open_recording(session.state().path);
  ASSERT_EQ(saved->info()->runs.size(), 2U);
  EXPECT_TRUE(saved->info()->complete);
  for (int run = 0; run < 2; ++run)
    EXPECT_EQ(saved->keys(run, 0, 1), session.state().recording->keys(run, 0, 1));
  session.start_live(invented_capture(3));
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().earlier.empty()) << "nothing would be lost";
}

TEST(Session, ARunThatFailedIsSavedUpToItsLastBlock) {
  const test::ScratchFolder folder;
  std::ofstream(folder.file("mine.h5")) << "mine";
  Session session({});
  session.start_live(invented_capture(6, 0));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.save_refusal(), "it was stopped before its first block");
  session.start_live(invented_capture(6, 2));
  ASSERT_TRUE(settle(session));
  ASSERT_EQ(session.save_refusal(), "");
  session.save_recording(folder.file("mine.h5"), true);
  EXPECT_THAT(session.state().notice.text, HasSubstr("replaces none"));
  session.save_recording(folder.file("run.h5"), false);
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().notice.text, HasSubstr("up to its last block"));
  const auto saved = recording::open_recording(folder.file("run.h5").string());
  EXPECT_FALSE(saved->info()->complete);
  EXPECT_EQ(saved->info()->runs[0].blocks_done, 2);
  EXPECT_EQ(saved->keys(0, 0, 1), session.state().recording->keys(0, 0, 1));
}

TEST(Session, ALiveRunWithAFileIsNotKeptTwice) {
  Session session({});
  session.start_live(invented_capture(6), {}, "run.h5");
  ASSERT_TRUE(settle(session));
  session.start_live(invented_capture(3));
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().earlier.empty());
}

}  // namespace

// The story of the held token.

namespace {

TEST(SessionStory, IsToldOfTheHeldTokenAndFollowsTheHead) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording, {.run = "keydiff", .token = 5});
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(session.state().story.story) << session.state().story.error;
  EXPECT_EQ(session.state().story.key, (StoryKey{{1, 0, 0}, 5, 5}));
  EXPECT_FALSE(session.state().making_story);
  const std::atomic<bool> go_on = false;
  const auto story = measures::token_story(*recording, {1, 0, 0}, 5, go_on);
  EXPECT_EQ(measures::token_story_json(*recording->info(), *session.state().story.story),
            measures::token_story_json(*recording->info(), story))
      << "what `inspect --token` writes";
  session.select_head(2, 1);
  EXPECT_FALSE(session.state().story.story) << "that was another head's";
  EXPECT_TRUE(session.state().making_story);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().story.story->head.layer, 2);
  session.set_block(1);
  EXPECT_TRUE(session.state().story.story) << "a story is of all blocks";
  session.release();
  EXPECT_FALSE(session.state().story.story);
  EXPECT_FALSE(session.state().making_story);
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
