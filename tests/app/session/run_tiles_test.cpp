#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/side_by_side.hpp"
#include "app/session/export_view.hpp"
#include "base/errors.hpp"
#include "tests/app/session/live_capture_double.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {

// Runs beside the selected one: which, what their tiles show, and that nothing of it is another number than
// the command line's.

namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

void open_beside(Session& session, std::vector<std::string> beside,
                 std::shared_ptr<SyntheticRecording> shown) {
  session.show(std::move(shown), {.run = "keydiff", .layer = 1, .kv_head = 2, .beside = std::move(beside)});
  ASSERT_TRUE(settle(session));
  ASSERT_FALSE(session.state().notice.error) << session.state().notice.text;
}

std::vector<int> runs_of(const SessionState& state) {
  std::vector<int> runs;
  for (const RunTile& tile : state.tiles) runs.push_back(tile.id.run);
  return runs;
}

std::vector<RunTile> beside(const SessionState& state) {
  std::vector<RunTile> tiles = state.tiles;
  std::erase_if(tiles, &RunTile::selected);
  return tiles;
}

TEST(SessionCompare, TilesStandInTheOrderOfTheList) {
  Session session([] {});
  open_beside(session, {"sink", "none"}, small_recording());
  EXPECT_THAT(runs_of(session.state()), ElementsAre(0, 1, 2));
  session.select_run(2);
  EXPECT_THAT(runs_of(session.state()), ElementsAre(0, 1, 2)) << "the same runs, another one selected";
  EXPECT_TRUE(session.state().tiles[2].selected);
  session.toggle_beside({0, 0});
  EXPECT_THAT(runs_of(session.state()), ElementsAre(1, 2));
  session.choose_view("diversity");
  EXPECT_THAT(runs_of(session.state()), ElementsAre(1, 2)) << "the key space can still be seen";
  EXPECT_THAT(session.state().tiles_of("diversity"), SizeIs(1)) << "a figure of all runs is not split";
  session.show_views({"diversity"});
  EXPECT_THAT(beside(session.state()), IsEmpty()) << "nothing is read for what nobody sees";
  session.choose_view(kTextView);
  EXPECT_THAT(beside(session.state()), IsEmpty());
  session.choose_view("cosine-matrix");
  EXPECT_THAT(runs_of(session.state()), ElementsAre(1, 2));
}

TEST(SessionCompare, SaysWhatCannotStandBeside) {
  Session session([] {});
  session.show(std::make_shared<SyntheticRecording>(SyntheticSize{.n_tokens = 320, .n_runs = 5}),
               {.run = "keydiff"});
  session.toggle_beside({0, 1});
  EXPECT_THAT(session.state().notice.text, HasSubstr("keydiff: it is selected"));
  for (const int run : {0, 2, 3, 4}) session.toggle_beside({0, run});
  EXPECT_THAT(session.state().notice.text, HasSubstr("4 runs stand side by side already"));
  EXPECT_EQ(session.state().tiles.size(), 4U);
  session.toggle_beside({7, 0});
  EXPECT_EQ(session.state().tiles.size(), 4U) << "there is no such run";
  session.show(small_recording(), {.run = "keydiff", .beside = {"keydiff"}});
  EXPECT_THAT(session.state().notice.text, HasSubstr("cannot stand beside itself"));
  session.show(small_recording(), {.beside = {"tova"}});
  EXPECT_THAT(session.state().notice.text, HasSubstr("tova")) << "which is no run of it";
  EXPECT_THAT(beside(session.state()), IsEmpty());
}

// The panels of `keyscope figure keyspace --run NAME`, number by number.
TEST(SessionCompare, EveryTileShowsTheCommandLinesKeySpace) {
  Session session([] {});
  const auto recording = small_recording();
  open_beside(session, {"sink", "none"}, recording);
  session.choose_look({.colour = figures::KeyColour::kAttention});
  session.set_block(3);
  ASSERT_TRUE(settle(session));
  ASSERT_EQ(session.state().tiles.size(), 3U);
  for (const RunTile& tile : session.state().tiles) {
    const std::string name = tile.run().plan.name;
    figures::FigureRequest request;
    request.name = "keyspace";
    request.runs = {name};
    request.layer = 1, request.kv_head = 2, request.block = 3;
    request.colour = figures::KeyColour::kAttention;
    const auto expected = figures::build_figure(*recording, request).panels.front();
    ASSERT_TRUE(tile.picture) << name;
    for (const auto& series : tile.picture->panel.points) {
      const auto same = std::ranges::find(expected.points, series.id, &figures::PointSeries::id);
      ASSERT_NE(same, expected.points.end()) << name << " " << series.id;
      EXPECT_EQ(series.x, same->x) << name << " " << series.id;
      EXPECT_EQ(series.y, same->y) << name << " " << series.id;
      EXPECT_EQ(series.token, same->token) << name << " " << series.id;
      EXPECT_EQ(series.value.size(), same->value.size()) << name << " " << series.id;
    }
    EXPECT_EQ(tile.picture->panel.scale->high, expected.scale->high) << name;
    EXPECT_EQ(tile.points->basis, session.state().selected().points->basis) << "one basis for all";
  }
}

TEST(SessionCompare, EveryTileShowsTheCommandLinesFigure) {
  Session session([] {});
  const auto recording = small_recording();
  open_beside(session, {"sink", "none"}, recording);
  session.set_figure_settings({.retained_only = true});
  session.choose_view("cosine-matrix");
  ASSERT_TRUE(settle(session));
  ASSERT_EQ(session.state().tiles.size(), 3U);
  for (const RunTile& tile : session.state().tiles) {
    figures::FigureRequest request;
    request.name = "cosine-matrix";
    request.runs = {tile.run().plan.name};
    request.layer = 1, request.kv_head = 2, request.block = session.state().selection.block;
    request.retained_only = true;
    request.max_size = 4096;
    const auto expected = figures::build_figure(*recording, request);
    ASSERT_TRUE(tile.figure("cosine-matrix").made.figure) << tile.figure("cosine-matrix").made.error;
    EXPECT_EQ(tile.figure("cosine-matrix").made.figure->caption, expected.caption);
    const auto& shown = tile.figure("cosine-matrix").made.figure->panels.front().heatmap->values;
    const auto& values = expected.panels.front().heatmap->values;
    ASSERT_EQ(shown.rows(), values.rows()) << tile.run().plan.name;
    EXPECT_TRUE((shown.array() == values.array() || (shown.array().isNaN() && values.array().isNaN())).all());
  }
}

TEST(SessionCompare, BlocksMoveTogether) {
  Session session([] {});
  open_beside(session, {"none"}, small_recording());
  session.set_block(1);
  for (const RunTile& tile : session.state().tiles) {
    EXPECT_EQ(tile.block, 1);
    EXPECT_EQ(tile.picture->key.block, 1) << "at once, without a worker";
    EXPECT_EQ(tile.n_seen, 128);
  }
  EXPECT_EQ(session.state().tiles[0].n_kept, 128) << "the full cache";
  session.show_last_block();
  EXPECT_EQ(tile_title(session.state().tiles[0]).kept, "320 of 320");
  const RunTile& keydiff = session.state().tiles[1];
  EXPECT_EQ(tile_title(keydiff).budget, "N = 128");
  const auto& evicted = keydiff.points->trace.evicted_at;
  EXPECT_EQ(keydiff.n_kept, std::ranges::count(evicted, -1));
}

TEST(SessionCompare, HeadsThatWereReadAreNotReadAgain) {
  Session session([] {});
  const auto recording = small_recording();
  open_beside(session, {"sink", "none"}, recording);
  session.select_head(2, 1);
  ASSERT_TRUE(settle(session));
  const auto reads = recording->key_reads();
  session.select_head(1, 2);
  EXPECT_FALSE(session.state().tiles[0].waiting());
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(recording->key_reads(), reads);
}

TEST(SessionCompare, ADamagedFileIsSaidInItsTile) {
  Session session([] {});
  const auto recording = small_recording();
  session.show(recording, {.run = "keydiff"});
  ASSERT_TRUE(settle(session));
  recording->break_keys();
  session.toggle_beside({0, 0});
  ASSERT_TRUE(drain_until(session, [&] { return !session.state().tiles.front().reading; }));
  EXPECT_THAT(session.state().tiles.front().refusal, HasSubstr("damaged"));
  EXPECT_TRUE(session.state().tiles.back().picture) << "what was read is still shown";
}

TEST(SessionCompare, IsUndoneAndCopied) {
  Session session([] {});
  open_beside(session, {}, small_recording());
  EXPECT_THAT(beside(session.state()), IsEmpty());
  session.toggle_beside({0, 2});
  EXPECT_THAT(view_command(session.state()), EndsWith("--view keyspace --beside sink"));
  session.choose_view("cosine-matrix");
  EXPECT_THAT(view_command(session.state()), EndsWith("--view cosine-matrix --beside sink"));
  session.undo();
  session.undo();
  EXPECT_THAT(beside(session.state()), IsEmpty());
  session.redo();
  EXPECT_THAT(runs_of(session.state()), ElementsAre(1, 2));
}

TEST(SessionCompare, AKeySpaceIsExportedWithAPanelForEachRun) {
  Session session([] {});
  open_beside(session, {"none"}, small_recording());
  const test::ScratchFolder folder;
  session.export_view(folder.file("keyspace.h5"));
  ASSERT_TRUE(settle(session));
  const auto figure = figures::read_figures(folder.file("keyspace.h5")).figures.front();
  EXPECT_THAT(figure.view.runs, ElementsAre("none", "keydiff"));
  ASSERT_EQ(figure.panels.size(), 2U);
  EXPECT_EQ(figure.panels[0].title, "none");
  EXPECT_EQ(figure.panels[1].title, "keydiff");
  EXPECT_NE(figure.panels[0].id, figure.panels[1].id);
  session.export_view(folder.file("one.h5"), {.all_runs = false});
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(figures::read_figures(folder.file("one.h5")).figures.front().panels.size(), 1U);
}

TEST(SideBySide, SaysOnceWhatIsTheSameAndAboveEachPanelWhatIsNot) {
  figures::Panel panel;
  panel.id = "head";
  figures::Figure first, second;
  first.panels = second.panels = {panel};
  first.title = "Scores, layer 1: ρ = 0.25";
  second.title = "Scores, layer 1: ρ = 0.21";
  first.caption = "demo, prompt of 9 tokens, keydiff, N = 4, B = 2. All keys.";
  second.caption = "demo, prompt of 9 tokens, none, B = 2. All keys.";
  const auto joined = figures::side_by_side({first, second}, {"keydiff", "none"});
  EXPECT_EQ(joined.title, "Scores, layer 1");
  EXPECT_EQ(joined.caption, "demo, prompt of 9 tokens, keydiff, N = 4 | none, B = 2. All keys.");
  EXPECT_EQ(joined.panels[0].note, "ρ = 0.25");
  EXPECT_EQ(joined.panels[1].title, "none");
  EXPECT_EQ(joined.panels[1].id, "head_2");
  EXPECT_EQ(figures::side_by_side({first}, {"keydiff"}).title, first.title);
}

// A matrix of each run, on one scale, and each with what its own title says.
TEST(SessionCompare, AFigureIsExportedWithAPanelForEachRun) {
  Session session([] {});
  open_beside(session, {"sink"}, small_recording());
  const test::ScratchFolder folder;
  for (const char* view : {"cosine-matrix", "score-attention"}) {
    session.choose_view(view);
    ASSERT_TRUE(settle(session));
    session.export_view(folder.file(std::string(view) + ".h5"));
    ASSERT_TRUE(settle(session));
    EXPECT_FALSE(session.state().notice.error) << session.state().notice.text;
    const auto figure = figures::read_figures(folder.file(std::string(view) + ".h5")).figures.front();
    ASSERT_EQ(figure.panels.size(), 2U) << view;
    EXPECT_THAT(figure.panels[0].title, StartsWith("keydiff"));
    EXPECT_THAT(figure.panels[1].title, StartsWith("sink"));
    EXPECT_THAT(figure.caption, HasSubstr("keydiff | sink"));
    EXPECT_TRUE(figure.shared_ranges);
    if (!figure.panels[0].heatmap) continue;
    EXPECT_EQ(figure.panels[0].heatmap->low, figure.panels[1].heatmap->low);
    EXPECT_EQ(figure.panels[0].heatmap->high, figure.panels[1].heatmap->high);
  }
}

TEST(SessionCompare, ALiveRunThatWasLeftStandsBeside) {
  Session session([] {});
  session.start_live(invented_capture(3));
  ASSERT_TRUE(settle(session));
  session.start_live(invented_capture(3));
  ASSERT_TRUE(settle(session));
  const auto& choices = session.state().choices;
  const auto earlier = std::ranges::find(choices, 1, [](const RunChoice& each) { return each.id.source; });
  ASSERT_NE(earlier, choices.end());
  ASSERT_EQ(earlier->refusal, "");
  session.toggle_beside(earlier->id);
  ASSERT_TRUE(settle(session));
  ASSERT_EQ(session.state().tiles.size(), 2U);
  const RunTile& tile = session.state().tiles.back();
  EXPECT_EQ(tile.recording, session.state().earlier.front().recording);
  ASSERT_TRUE(tile.points) << tile.refusal;
  EXPECT_EQ(tile.points->basis, session.state().selected().points->basis) << "the open recording's";
  EXPECT_THAT(tile_title(tile).budget, HasSubstr("earlier"));
  session.show_earlier(0);
  EXPECT_THAT(beside(session.state()), IsEmpty()) << "another document";
}

}  // namespace

// The session's look, its picture, and the tokens that are selected in it.

namespace {

using figures::KeyColour;
using figures::Projection;

TEST(SessionPicture, TheUsualLookIsThereWithTheHead) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  ASSERT_TRUE(session.state().selected().picture);
  EXPECT_EQ(session.state().selected().picture->key.head, session.state().head());
  session.set_block(1);
  EXPECT_EQ(session.state().selected().picture->key.block, 1) << "at once, without a worker";
  EXPECT_FALSE(session.state().selected().drawing);
}

TEST(SessionPicture, AnotherLookIsMadeByAWorkerAndKept) {
  Session session([] {});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  const auto before = session.state().selected().picture;
  session.choose_look({Projection::kAnchor, KeyColour::kPosition, true});
  EXPECT_TRUE(session.state().selected().drawing);
  EXPECT_TRUE(session.busy());
  EXPECT_EQ(session.state().selected().picture, before) << "is shown meanwhile";
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().selected().drawing);
  const auto& panel = session.state().selected().picture->panel;
  EXPECT_EQ(panel.x.label, "cosine to the anchor");
  EXPECT_EQ(panel.points.front().id, "queries");
  EXPECT_TRUE(panel.scale);
  session.select_head(2, 1);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selected().picture->key.look.projection, Projection::kAnchor);
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selected().picture->key.look.colour, KeyColour::kPosition) << "another recording";
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
  EXPECT_EQ(session.state().selected().picture->key.block, 3);
  EXPECT_EQ(session.state().selected().picture->key.look, session.state().look);
}

TEST(SessionPicture, ADamagedFileStillShowsWhatWasRead) {
  auto recording = small_recording();
  Session session([] {});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->break_queries();
  session.choose_look({.queries = true});
  ASSERT_TRUE(settle(session));
  EXPECT_NE(session.state().selected().picture->refusal.find("damaged"), std::string::npos);
  EXPECT_FALSE(session.state().selected().picture->panel.points.empty());
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
  session.export_view(folder.file("tokens.csv"));
  ASSERT_TRUE(settle(session));
  std::ostringstream text;
  text << std::ifstream(folder.file("tokens.csv")).rdbuf();
  const std::string csv = text.str();
  EXPECT_EQ(std::ranges::count(csv, '\r'), 3) << "a heading and two tokens; the third is still to come";
  EXPECT_NE(csv.find("\n2,2,\" of\""), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n9,9,\" seven\""), std::string::npos) << csv;
}

// So many queries that heads are sketched first.
constexpr SyntheticSize kLong{.n_layers = 1,
                              .n_kv_heads = 2,
                              .head_dim = 64,
                              .n_tokens = 16384,
                              .block_size = 4096,
                              .budget = 1024,
                              .n_runs = 2};

// Whole queries cannot be read of it, stretches can.
class TornQueries : public SyntheticRecording {
 public:
  using SyntheticRecording::SyntheticRecording;

  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override {
    if (count > 1000) throw FileError("torn.h5: queries are cut short");
    return SyntheticRecording::queries(run, layer, query_head, first, count);
  }
};

TEST(SessionPoints, LongHeadsAreSketchedAndThenSettled) {
  const auto recording = std::make_shared<SyntheticRecording>(kLong);
  ASSERT_TRUE(worth_sketching(*recording->info()));
  Session session(nullptr);
  session.show(recording);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().selected().points != nullptr; }));
  const auto sketch = session.state().selected().points;
  EXPECT_TRUE(sketch->sketched);
  EXPECT_FALSE(session.state().selected().reading);
  EXPECT_TRUE(session.state().selected().settling);
  EXPECT_EQ(sketch->mean_query.rows(), 0);

  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().selected().settling);
  const auto expected = read_at_once(*recording, session.state().head());
  const auto& settled = *session.state().selected().points;
  EXPECT_FALSE(settled.sketched);
  EXPECT_EQ(settled.keys, expected->keys);
  EXPECT_EQ(settled.coordinates, expected->coordinates);
  EXPECT_EQ(settled.mean_key, expected->mean_key);
  EXPECT_EQ(settled.mean_query, expected->mean_query);

  // Points hardly move from one to the other.
  const double width = expected->extent.x_high - expected->extent.x_low;
  EXPECT_LT((settled.coordinates - sketch->coordinates).leftCols(2).rowwise().norm().maxCoeff(), 0.1 * width);
}

TEST(SessionPoints, AHeadLeftWhileItSettlesIsSettledWhenItIsShownAgain) {
  const auto recording = std::make_shared<SyntheticRecording>(kLong);
  Session session(nullptr);
  session.show(recording);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().selected().settling; }));
  session.select_head(0, 1);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().selected().points->coordinates,
            read_at_once(*recording, session.state().head())->coordinates);
  session.select_head(0, 0);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().selected().points->sketched);
  EXPECT_EQ(session.state().selected().points->coordinates,
            read_at_once(*recording, session.state().head())->coordinates);
}

TEST(SessionPoints, TheSketchStaysWhereTheRestCannotBeRead) {
  Session session(nullptr);
  session.show(std::make_shared<TornQueries>(kLong));
  ASSERT_TRUE(drain_until(
      session, [&] { return session.state().selected().points && !session.state().selected().settling; }));
  EXPECT_GT(session.state().selected().points->keys.rows(), 0);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().notice.error; }));
  EXPECT_NE(session.state().notice.text.find("torn.h5"), std::string::npos);
}

}  // namespace

}  // namespace keyscope::session
