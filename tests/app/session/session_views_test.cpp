// What the middle of the window shows, writes into files, and goes back to.

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/nexus.hpp"
#include "base/files.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SessionViews, AViewIsMadeOfTheSelectionAndKept) {
  Session session({});
  session.show(small_recording());
  session.choose_view("cosine-matrix");
  EXPECT_TRUE(session.state().selected().figure(session.state().view).making);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().selected().figure(session.state().view).making);
  const auto first = shown_in(session).figure;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->name, "cosine-matrix");
  session.select_head(2, 3);
  EXPECT_EQ(shown_in(session).figure, first) << "what was shown stays until there is something new";
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(shown_in(session).figure->view.layer, 2);
  EXPECT_EQ(shown_in(session).figure->view.kv_head, 3);
  session.select_head(0, 0);
  EXPECT_EQ(shown_in(session).figure, first) << "it was made before";
  session.choose_view("key-norms");
  EXPECT_FALSE(shown_in(session).figure) << "another figure says nothing here";
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(shown_in(session).figure->name, "key-norms");
}

// Missing values are the same as each other.
bool same(const RowMatrixF& a, const RowMatrixF& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  return ((a.array() == b.array()) || (a.array().isNaN() && b.array().isNaN())).all();
}

TEST(SessionViews, AViewEqualsTheCommandLinesFigure) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  for (const ViewChoice& view : view_choices()) {
    if (!is_figure_view(view.name) || !figures::is_recorded(*recording->info(), view.name)) continue;
    session.choose_view(view.name);
    ASSERT_TRUE(settle(session));
    const MadeFigure& shown = shown_in(session);
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

TEST(SessionViews, AViewThatCannotBeMadeSaysWhy) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->break_keys();
  session.choose_view("cosine-matrix");
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(shown_in(session).figure);
  EXPECT_FALSE(shown_in(session).error.empty());
  session.choose_view("no-such-view");
  EXPECT_EQ(session.state().view, "cosine-matrix");
}

TEST(SessionViews, ExportsByTheExtensionsThatTheCommandLineKnows) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  for (const char* name : {"a.h5", "a.HDF5", "a.nxs"}) {
    session.export_view(folder.file(name));
    ASSERT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    EXPECT_TRUE(figures::is_figure_file(folder.file(name))) << name;
  }
  session.export_view(folder.file("a.SVG"));
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(std::filesystem::exists(folder.file("a.SVG")));
}

TEST(SessionViews, ExportReplacesOnlyWhenToldTo) {
  const test::ScratchFolder folder;
  std::ofstream(folder.file("a.svg")) << "mine";
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.export_view(folder.file("a.svg"));
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().notice.error);
  EXPECT_THAT(session.state().notice.text, HasSubstr("tick Replace"));
  EXPECT_EQ(std::filesystem::file_size(folder.file("a.svg")), 4U);
  session.export_view(folder.file("a.svg"), {.page = {.replace = true}});
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
  EXPECT_GT(std::filesystem::file_size(folder.file("a.svg")), 1000U);
}

// As pixels: a picture shows what the screen does, the numbers are all there.
TEST(SessionViews, ExportsThePartThatIsShownOnTheGroundThatIsChosen) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  const auto written = [&](const std::string& name, const ExportChoice& choice) {
    session.export_view(folder.file(name), choice);
    EXPECT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    return read_file(folder.file(name).string());
  };
  const std::string all = written("all.svg", {});
  EXPECT_THAT(all, HasSubstr("evicted"));
  session.note_shown(kKeyspaceView, {{figures::Extent{-1, 1, -1, 1}, {"evicted"}}});
  EXPECT_THAT(written("part.svg", {}), Not(HasSubstr("evicted")));
  EXPECT_THAT(written("whole.svg", {.as_seen = false}), HasSubstr("evicted"));
  EXPECT_NE(written("dark.png", {.page = {.dpi = 72, .dark = true}}),
            written("light.png", {.page = {.dpi = 72}}));
  written("numbers.h5", {});
  const auto numbers = figures::read_figures(folder.file("numbers.h5")).figures.front();
  EXPECT_TRUE(std::ranges::any_of(numbers.panels[0].points, [](const auto& s) { return s.id == "evicted"; }));
}

TEST(SessionViews, ThePreviewIsTheLastThatWasAskedFor) {
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.want_preview({}, 300, 200);
  const int asked = session.want_preview({.page = {.width_inches = 3.4}}, 300, 200);
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(session.state().preview);
  const Preview& made = *session.state().preview;
  EXPECT_EQ(made.asked, asked);
  EXPECT_EQ(made.error, "");
  EXPECT_LE(made.image.width, 300);
  EXPECT_LE(made.image.height, 201);
  EXPECT_EQ(made.image.bgrx.size(), 4U * made.image.width * made.image.height);
  session.want_preview({.page = {.width_inches = 100}}, 300, 200);
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().preview->error, HasSubstr("width"));
}

TEST(SessionViews, ExportsTheViewOrTheTokensOfTheHead) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.choose_view("cosine-matrix");
  ASSERT_TRUE(settle(session));
  session.export_view(folder.file("a.h5"));
  ASSERT_TRUE(settle(session));
  const auto written = figures::read_figures(folder.file("a.h5"));
  ASSERT_EQ(written.figures.size(), 1U);
  EXPECT_EQ(written.figures[0].name, "cosine-matrix");
  session.choose_view(kTextView);
  for (const char* name : {"tokens.csv", "tokens.json"}) {
    session.export_view(folder.file(name));
    ASSERT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    EXPECT_GT(std::filesystem::file_size(folder.file(name)), 320U * 20);
  }
  session.export_view(folder.file("text.png"));
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().notice.text, HasSubstr(".csv"));
}

TEST(SessionViews, ExportsThePageOfTheKeySpaceAndOfTheText) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording(), {.run = "sink", .layer = 2, .kv_head = 1, .block = 3});
  ASSERT_TRUE(settle(session));
  session.select_tokens({3, 5});
  for (const char* view : {"keyspace", "text"}) {
    session.choose_view(view);
    const std::string path = folder.file(std::string(view) + ".html").string();
    session.export_view(path);
    ASSERT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    EXPECT_THAT(read_file(path),
                AllOf(HasSubstr("Key space of layer 2, KV head 1"), HasSubstr(R"("open_at":3)"),
                      HasSubstr(R"("selected":[3,5])"), HasSubstr(R"("name":"sink")")));
  }
  session.choose_view("cosine-matrix");
  session.export_view(folder.file("matrix.html"));
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().notice.text, HasSubstr("choose one of these two views"));
}

TEST(SessionViews, AnOrderedMatrixIsTheCommandLinesAndIsWrittenAsItIsShown) {
  const test::ScratchFolder folder;
  const auto recording = small_recording();
  Session session({});
  session.show(recording);
  session.choose_view("cosine-matrix");
  FigureSettings settings;
  settings.order = figures::MatrixOrder::kDendrogram;
  session.set_figure_settings(settings);
  session.export_view(folder.file("a.h5"));
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(shown_in(session).figure) << shown_in(session).error;
  const figures::Panel& shown = shown_in(session).figure->panels.at(0);
  figures::FigureRequest request;
  request.name = "cosine-matrix";
  request.runs = {"keydiff"};
  request.order = figures::MatrixOrder::kDendrogram;
  request.block = session.state().selection.block;
  const figures::Panel asked = figures::build_figure(*recording, request).panels.at(0);
  EXPECT_EQ(shown.heatmap->values, asked.heatmap->values);
  EXPECT_EQ(shown.order->token, asked.order->token);
  EXPECT_EQ(shown.order->merges, asked.order->merges);
  const auto written = figures::read_figures(folder.file("a.h5")).figures.at(0);
  EXPECT_EQ(written.panels.at(0).order->token, shown.order->token);
}

TEST(SessionViews, TooManyKeysAreNotOrderedAndItIsSaid) {
  SyntheticSize size;
  size.n_tokens = kMostOrdered + 64;
  Session session({});
  session.show(std::make_shared<SyntheticRecording>(size));
  session.choose_view("cosine-matrix");
  FigureSettings settings;
  settings.order = figures::MatrixOrder::kDendrogram;
  session.set_figure_settings(settings);
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(shown_in(session).error, AllOf(HasSubstr("4,160 keys"), HasSubstr("at most 4,096")));
}

TEST(SessionViews, UndoGoesBackToWhatWasLookedAt) {
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
  EXPECT_EQ(session.state().selected().points->head, (HeadKey{1, 2, 3}));
}

}  // namespace
}  // namespace keyscope::session
