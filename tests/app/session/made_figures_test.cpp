#include "app/session/made_figures.hpp"

#include <set>

#include <gtest/gtest.h>

#include "app/figures/catalogue.hpp"
#include "base/errors.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

namespace {

const Selection kSelected{1, 2, 3, 4};

recording::RecordingInfo info() { return *SyntheticRecording({}).info(); }

TEST(ViewChoices, AreEveryFigureOnce) {
  std::set<std::string> names;
  for (const ViewChoice& view : view_choices()) {
    EXPECT_TRUE(names.insert(view.name).second) << view.name;
    EXPECT_FALSE(view.label.empty());
    EXPECT_TRUE(is_view(view.name));
  }
  EXPECT_EQ(names.size(), figures::figure_names().size() + 2) << "the text and the difference";
  EXPECT_EQ(view_choices().front().name, kKeyspaceView);
  EXPECT_LE(n_view_tabs(), view_choices().size());
  EXPECT_FALSE(is_view("fig7"));
}

TEST(FigureKey, HoldsWhatTheFigureDependsOnAlone) {
  const auto recording = info();
  EXPECT_EQ(figure_key(recording, kSelected, "cosine-matrix").selection, kSelected);
  EXPECT_EQ(figure_key(recording, kSelected, "key-norms").selection, (Selection{1, -1, -1, -1}));
  EXPECT_EQ(figure_key(recording, kSelected, "log-volume").selection, (Selection{-1, -1, -1, 4}));
  Selection other = kSelected;
  other.layer = 0;
  EXPECT_EQ(figure_key(recording, kSelected, "log-volume"), figure_key(recording, other, "log-volume"));
  EXPECT_NE(figure_key(recording, kSelected, "attention"), figure_key(recording, other, "attention"));
}

TEST(FigureKey, ChangesAsARecordingGrows) {
  auto recording = info();
  const FigureKey before = figure_key(recording, kSelected, "attention");
  ++recording.runs[0].blocks_done;
  EXPECT_NE(figure_key(recording, kSelected, "attention"), before);
}

// What the window shows and what its copied command makes are one request.
TEST(FigureRequest, SaysTheSelectionInTheCommandLinesWords) {
  const auto recording = info();
  const FigureKey key = figure_key(recording, kSelected, "cosine-matrix");
  const auto request = figure_request(recording, key);
  EXPECT_EQ(request.name, "cosine-matrix");
  EXPECT_EQ(request.runs, std::vector<std::string>{"keydiff"});
  EXPECT_EQ(request.layer, 2);
  EXPECT_EQ(request.kv_head, 3);
  EXPECT_EQ(request.block, 4);
  EXPECT_EQ(figure_options(recording, key), " --run keydiff --layer 2 --kv-head 3 --block 4");
  EXPECT_EQ(figure_options(recording, figure_key(recording, kSelected, "log-volume")), " --block 4");
}

TEST(FigureRequest, TakesTheSettingsThatTheFigureHas) {
  const auto recording = info();
  const FigureSettings all{true, true, true, figures::MatrixOrder::kDendrogram, figures::Reduction::kMax};
  const FigureKey cosines = figure_key(recording, kSelected, "cosine-matrix", {}, all);
  EXPECT_TRUE(figure_request(recording, cosines).retained_only);
  EXPECT_EQ(figure_request(recording, cosines).reduction, figures::Reduction::kMax);
  EXPECT_EQ(figure_options(recording, cosines),
            " --run keydiff --layer 2 --kv-head 3 --block 4 --retained --order dendrogram --reduce max");
  const FigureKey attention = figure_key(recording, kSelected, "attention", {}, all);
  EXPECT_FALSE(figure_request(recording, attention).logarithmic);
  EXPECT_FALSE(figure_request(recording, attention).retained_only);
  EXPECT_TRUE(figure_request(recording, figure_key(recording, kSelected, "score-attention", {}, all)).ranks);
  EXPECT_EQ(figure_key(recording, kSelected, "log-volume", {}, all),
            figure_key(recording, kSelected, "log-volume"))
      << "made once, whatever others are set to";
}

TEST(FigureRequest, OfEveryViewCanBeAsked) {
  const auto recording = info();
  for (const ViewChoice& view : view_choices()) {
    if (!is_figure_view(view.name) || !figures::is_recorded(recording, view.name)) continue;
    const auto request = figure_request(recording, figure_key(recording, kSelected, view.name));
    EXPECT_NO_THROW(figures::check_request(recording, request)) << view.name;
  }
}

std::shared_ptr<const MadeFigure> made(int layer, std::size_t n_points) {
  auto figure = std::make_shared<figures::Figure>();
  figure->panels.emplace_back().points.emplace_back().x.resize(n_points);
  return std::make_shared<const MadeFigure>(MadeFigure{{"attention", {0, layer, 0, 0}, 0}, figure, {}});
}

TEST(MadeFigures, KeepsTheMostRecentlyUsedWithinItsBytes) {
  MadeFigures figures(10'000);
  figures.put(made(0, 1000));
  figures.put(made(1, 1000));
  EXPECT_NE(figures.find(made(0, 0)->key), nullptr);
  figures.put(made(2, 1000));
  EXPECT_EQ(figures.find(made(1, 0)->key), nullptr) << "the one used longest ago";
  EXPECT_NE(figures.find(made(0, 0)->key), nullptr);
  figures.put(made(3, 100'000));
  EXPECT_EQ(figures.size(), 1U) << "the newest stays whatever its size";
  figures.put(made(3, 10));
  EXPECT_EQ(figures.size(), 1U) << "made again";
}

figures::FigureRequest request_of(const char* name) {
  figures::FigureRequest request;
  request.name = name;
  return request;
}

TEST(WatchedRecording, AFigureOfOneHeadCountsNone) {
  EXPECT_TRUE(heads_of_figure(*small_recording()->info(), request_of("cosine-matrix")).empty());
}

TEST(WatchedRecording, AFigureOfOneRunCountsItsHeadsAndThoseOfItsReference) {
  const auto info = small_recording()->info();
  figures::FigureRequest request = request_of("head-map");
  request.runs = {"keydiff"};
  EXPECT_EQ(heads_of_figure(*info, request).size(), 16U);  // 4 layers × 4 heads
  request.reference = "sink";
  EXPECT_EQ(heads_of_figure(*info, request).size(), 32U);
}

TEST(WatchedRecording, AFigureOfSeveralRunsCountsTheHeadsOfAll) {
  EXPECT_EQ(heads_of_figure(*small_recording()->info(), request_of("redundancy")).size(), 48U);
}

TEST(WatchedRecording, EveryHeadCountsOnceHoweverItIsRead) {
  const auto recording = small_recording();
  JobWatch watch("reading", "heads");
  const WatchedRecording watched(*recording, {{1, 0, 0}, {1, 0, 1}}, watch);
  EXPECT_EQ(watch.status().total, 2);
  EXPECT_EQ(watched.keys(1, 0, 0, 0, -1), recording->keys(1, 0, 0, 0, -1));
  watched.trace(1, 0, 0);
  watched.keys(0, 0, 1, 0, -1);  // of another run: not counted
  EXPECT_EQ(watch.status().done, 1);
  watched.queries(1, 0, 3, 0, -1);  // two query heads share a KV head: this one's is 1
  EXPECT_EQ(watch.status().done, 2);
  EXPECT_EQ(watched.group_queries(1, 0, 1, 0, 5), recording->group_queries(1, 0, 1, 0, 5));
  EXPECT_EQ(watch.status().done, 2);
}

// All but those of a run that a figure leaves out, as relaxation-gap does with one that evicts nothing.
TEST(WatchedRecording, FiguresOfARecordingReadTheHeadsThatAreCounted) {
  const auto recording = small_recording();
  for (const char* name : {"rank-correlation", "mean-cosines", "key-norms", "redundancy", "bounds", "overlap",
                           "diversity", "mean-key-query-cosine", "ablation"}) {
    JobWatch watch("reading", "heads");
    const auto heads = heads_of_figure(*recording->info(), request_of(name));
    figures::build_figure(WatchedRecording(*recording, heads, watch), request_of(name));
    EXPECT_EQ(watch.status().done, std::ssize(heads)) << name;
  }
}

TEST(WatchedRecording, ACancelledFigureReadsNoMore) {
  const auto recording = small_recording();
  JobWatch watch("reading", "heads");
  const auto request = request_of("rank-correlation");
  const WatchedRecording watched(*recording, heads_of_figure(*recording->info(), request), watch);
  watch.cancel();
  EXPECT_THROW(figures::build_figure(watched, request), Cancelled);
  EXPECT_EQ(recording->key_reads(), 0);
}

}  // namespace

}  // namespace keyscope::session
