#include "app/session/figure_choice.hpp"

#include <set>

#include <gtest/gtest.h>

#include "app/session/made_figures.hpp"
#include "tests/app/session/synthetic_recording.hpp"

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
  EXPECT_EQ(names.size(), figures::figure_names().size() + 1) << "and the text";
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

MadeFigure made(int layer, std::size_t n_points) {
  auto figure = std::make_shared<figures::Figure>();
  figure->panels.emplace_back().points.emplace_back().x.resize(n_points);
  return {{"attention", {0, layer, 0, 0}, 0}, figure, {}};
}

TEST(MadeFigures, KeepsTheMostRecentlyUsedWithinItsBytes) {
  MadeFigures figures(10'000);
  figures.put(made(0, 1000));
  figures.put(made(1, 1000));
  EXPECT_NE(figures.find(made(0, 0).key), nullptr);
  figures.put(made(2, 1000));
  EXPECT_EQ(figures.find(made(1, 0).key), nullptr) << "the one used longest ago";
  EXPECT_NE(figures.find(made(0, 0).key), nullptr);
  figures.put(made(3, 100'000));
  EXPECT_EQ(figures.size(), 1U) << "the newest stays whatever its size";
  figures.put(made(3, 10));
  EXPECT_EQ(figures.size(), 1U) << "made again";
}

}  // namespace
}  // namespace keyscope::session
