#include "app/session/session.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/nexus.hpp"
#include "tests/app/session/live_capture_double.hpp"
#include "tests/app/session/synthetic_recording.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using ::testing::HasSubstr;

constexpr SyntheticSize kSmall{.n_tokens = 320, .block_size = 64, .budget = 128};

template <typename Condition>
bool drain_until(Session& session, const Condition& done) {
  for (int i = 0; i < 4000; ++i) {
    session.drain();
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

bool settle(Session& session) {
  return drain_until(session, [&] { return !session.busy(); }) && (session.drain(), true);
}

std::shared_ptr<SyntheticRecording> small_recording() { return std::make_shared<SyntheticRecording>(kSmall); }

TEST(Session, ShowsTheSelectedHeadAndMeasuresItsRun) {
  Session session({});
  session.show(small_recording());
  EXPECT_TRUE(session.state().reading);
  ASSERT_TRUE(settle(session));
  const SessionState& state = session.state();
  EXPECT_FALSE(state.reading);
  ASSERT_TRUE(state.points);
  EXPECT_EQ(state.points->head, (HeadKey{1, 0, 0}));
  EXPECT_EQ(state.measured.size(), 16U);
  EXPECT_TRUE(state.measured.at({1, 3, 3}).measures.spearman);
}

TEST(Session, AViewIsMadeOfTheSelectionAndKept) {
  Session session({});
  session.show(small_recording());
  session.choose_view("cosine-matrix");
  EXPECT_TRUE(session.state().making);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().making);
  const auto first = session.state().shown.figure;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->name, "cosine-matrix");
  session.select_head(2, 3);
  EXPECT_EQ(session.state().shown.figure, first) << "what was shown stays until there is something new";
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().shown.figure->view.layer, 2);
  EXPECT_EQ(session.state().shown.figure->view.kv_head, 3);
  session.select_head(0, 0);
  EXPECT_EQ(session.state().shown.figure, first) << "it was made before";
  session.choose_view("key-norms");
  EXPECT_FALSE(session.state().shown.figure) << "another figure says nothing here";
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().shown.figure->name, "key-norms");
}

// Missing values are the same as each other.
bool same(const RowMatrixF& a, const RowMatrixF& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  return ((a.array() == b.array()) || (a.array().isNaN() && b.array().isNaN())).all();
}

TEST(Session, AViewEqualsTheCommandLinesFigure) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  for (const ViewChoice& view : view_choices()) {
    if (!is_figure_view(view.name) || !figures::is_recorded(*recording->info(), view.name)) continue;
    session.choose_view(view.name);
    ASSERT_TRUE(settle(session));
    const MadeFigure& shown = session.state().shown;
    ASSERT_TRUE(shown.figure) << view.name << ": " << shown.error;
    const auto written = figures::build_figure(*recording, figure_request(*recording->info(), shown.key));
    ASSERT_EQ(shown.figure->panels.size(), written.panels.size()) << view.name;
    EXPECT_EQ(shown.figure->caption, written.caption);
    for (std::size_t i = 0; i < written.panels.size(); ++i) {
      const auto &a = shown.figure->panels[i], &b = written.panels[i];
      ASSERT_EQ(a.points.size(), b.points.size());
      for (std::size_t j = 0; j < a.points.size(); ++j) EXPECT_EQ(a.points[j].y, b.points[j].y);
      if (b.heatmap) {
        EXPECT_TRUE(same(a.heatmap->values, b.heatmap->values)) << view.name;
      }
    }
  }
}

TEST(Session, AViewThatCannotBeMadeSaysWhy) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->break_keys();
  session.choose_view("cosine-matrix");
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().shown.figure);
  EXPECT_FALSE(session.state().shown.error.empty());
  session.choose_view("no-such-view");
  EXPECT_EQ(session.state().view, "cosine-matrix");
}

TEST(Session, SelectingAHeadReadsItOnceAndKeepsIt) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  session.select_head(2, 3);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().points->head, (HeadKey{1, 2, 3}));
  const auto reads = recording->key_reads();
  session.select_head(0, 0);
  session.select_head(2, 3);
  EXPECT_EQ(session.state().points->head, (HeadKey{1, 2, 3}));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(recording->key_reads(), reads);
}

TEST(Session, SwitchingThePolicyKeepsHeadBlockAndBasis) {
  Session session({});
  session.show(small_recording(), {.layer = 2, .kv_head = 1, .block = 3});
  ASSERT_TRUE(settle(session));
  const auto basis = session.state().points->basis;
  session.select_run(2);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selection, (Selection{2, 2, 1, 3}));
  EXPECT_EQ(session.state().points->basis, basis);
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
  EXPECT_EQ(session.state().points->head.kv_head, 3);
  EXPECT_EQ(session.state().measured.size(), 16U) << "the map is of all heads";
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
  EXPECT_EQ(session.state().points->head, (HeadKey{1, 0, 0}));  // what was there stays
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
  EXPECT_EQ(session.state().points->n_tokens, 48);
  EXPECT_FALSE(session.busy());
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
  session.cancel_live();
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

TEST(Session, ExportsByTheExtensionsThatTheCommandLineKnows) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  for (const char* name : {"a.h5", "a.HDF5", "a.nxs"}) {
    session.export_view(folder.file(name), false);
    ASSERT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    EXPECT_TRUE(figures::is_figure_file(folder.file(name))) << name;
  }
  session.export_view(folder.file("a.SVG"), false);
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(std::filesystem::exists(folder.file("a.SVG")));
}

TEST(Session, ExportReplacesOnlyWhenToldTo) {
  const test::ScratchFolder folder;
  std::ofstream(folder.file("a.svg")) << "mine";
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.export_view(folder.file("a.svg"), false);
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().notice.error);
  EXPECT_THAT(session.state().notice.text, HasSubstr("tick Replace"));
  EXPECT_EQ(std::filesystem::file_size(folder.file("a.svg")), 4U);
  session.export_view(folder.file("a.svg"), true);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
  EXPECT_GT(std::filesystem::file_size(folder.file("a.svg")), 1000U);
}

TEST(Session, ExportsTheViewOrTheTokensOfTheHead) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.choose_view("cosine-matrix");
  ASSERT_TRUE(settle(session));
  session.export_view(folder.file("a.h5"), false);
  ASSERT_TRUE(settle(session));
  const auto written = figures::read_figures(folder.file("a.h5"));
  ASSERT_EQ(written.figures.size(), 1U);
  EXPECT_EQ(written.figures[0].name, "cosine-matrix");
  session.choose_view(kTextView);
  for (const char* name : {"tokens.csv", "tokens.json"}) {
    session.export_view(folder.file(name), false);
    ASSERT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    EXPECT_GT(std::filesystem::file_size(folder.file(name)), 320U * 20);
  }
  session.export_view(folder.file("text.png"), false);
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().notice.text, HasSubstr(".csv"));
}

TEST(Session, UndoGoesBackToWhatWasLookedAt) {
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  const Selection first = session.state().selection;
  session.select_head(2, 3);
  session.choose_view("cosine-matrix");
  session.lock(7);
  session.set_block(1);
  session.set_block(0);
  session.undo();
  EXPECT_EQ(session.state().selection.block, first.block) << "the steps through blocks";
  EXPECT_EQ(session.state().locked, 7);
  session.undo();
  EXPECT_EQ(session.state().locked, std::nullopt);
  session.undo();
  EXPECT_EQ(session.state().view, kKeyspaceView);
  EXPECT_EQ(session.state().selection.layer, 2);
  session.undo();
  EXPECT_EQ(session.state().selection, first);
  session.undo();
  EXPECT_THAT(session.state().notice.text, HasSubstr("nothing to undo"));
  session.redo();
  EXPECT_EQ(session.state().selection.kv_head, 3);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().points->head, (HeadKey{1, 2, 3}));
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

}  // namespace
}  // namespace keyscope::session
