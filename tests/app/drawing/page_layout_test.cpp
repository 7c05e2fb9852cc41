#include "app/drawing/page_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/drawing/cairo_painter.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/scales.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

namespace {

class PageLayoutAt : public ::testing::TestWithParam<std::tuple<std::string, double>> {
 protected:
  static Figure build(const std::string& name) {
    FakeRecording recording(1, 2, 1, 8, 200, 50);
    recording.add_run("none", 0);
    recording.add_run("keydiff", 60);
    recording.add_run("sink", 60);
    recording.fill(1);
    FigureRequest request;
    request.name = name;
    request.retained_only = true;  // the longest label
    return build_figure(recording, request);
  }

  CairoSurface surface_{cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1)};
  CairoContext cairo_{cairo_create(surface_.get())};
};

TEST_P(PageLayoutAt, LabelsFitBesideTheirPlots) {
  const auto [name, inches] = GetParam();
  const Figure figure = build(name);
  const PageLayout page = lay_out_page(cairo_.get(), figure, inches * 72);
  double before = 0;  // where the last panel ended
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    const Panel& panel = figure.panels[i];
    const PanelLayout& place = page.panels[i];
    const TextStyle x_style = x_label_style(cairo_.get(), panel, place);
    const TextStyle y_style = y_label_style(cairo_.get(), panel, place.plot.height);
    const TextSize x = measure_text(cairo_.get(), axis_label(panel.x), x_style);
    const TextSize y = measure_text(cairo_.get(), axis_label(panel.y), y_style);
    double ticks = 0;
    for (const Tick& tick : y_ticks(panel, place.ranges, place.plot.height))
      ticks = std::max(ticks, measure_text(cairo_.get(), tick.label, {kTickSize}).width);
    EXPECT_GE(x_ticks(panel, place.ranges, place.plot.width).size(), 2U);
    EXPECT_GE(y_ticks(panel, place.ranges, place.plot.height).size(), 2U);
    EXPECT_GE(x_style.size_pt, kLeastLabelSize);
    EXPECT_LE(y.width, place.plot.height + 0.1) << "the y label is no longer than its axis";
    if (place.y_labels) {
      EXPECT_GE(place.plot.x - ticks - y.height - kTickLength - kTickGap - 3, kPageMargin - 0.1);
    }
    const double centre = place.plot.x + place.plot.width / 2;
    EXPECT_GE(centre - x.width / 2, kPageMargin - 0.1);
    EXPECT_LE(centre + x.width / 2, page.width - kPageMargin + 0.1);
    if (place.x_labels) {
      EXPECT_LE(place.plot.bottom() + kTickLength + kTickGap + x.height, place.cell.bottom() + 0.1);
    }
    if (panel.heatmap) {
      const double bar = colour_bar_extent(cairo_.get(), *panel.heatmap, place.plot.height);
      EXPECT_LE(place.plot.right() + bar, page.width - kPageMargin + 0.1);
    }
    EXPECT_GT(place.plot.width, 30);
    before = std::max(before, place.cell.bottom());
  }
  EXPECT_GE(page.caption_y, before);
}

INSTANTIATE_TEST_SUITE_P(Widths, PageLayoutAt,
                         ::testing::Combine(::testing::Values("keyspace", "cosine-matrix", "attention",
                                                              "diversity", "score-attention"),
                                            ::testing::Values(kLeastInches, kSingleColumnInches,
                                                              kDoubleColumnInches)));

PageLayout lay_out(const Figure& figure, double inches) {
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1), cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> cairo(cairo_create(surface.get()), cairo_destroy);
  return lay_out_page(cairo.get(), figure, inches * 72);
}

std::vector<std::string> names(int n) {
  std::vector<std::string> all;
  for (int i = 0; i < n; ++i) all.push_back(std::to_string(i));
  return all;
}

Figure grid_of(int n_rows, int n_columns, bool heatmap, const std::string& note = "") {
  Figure figure;
  figure.title = "title";
  figure.caption = "caption";
  figure.shared_ranges = true;
  figure.multiples = {"layer", "KV head", names(n_rows), names(n_columns)};
  for (int i = 0; i < n_rows * n_columns; ++i) {
    Panel panel;
    panel.id = fmt::format("cell_{}", i);
    panel.x.label = panel.y.label = "token position";
    panel.note = note;
    PointSeries series;
    series.x = {0, static_cast<float>(i)};
    series.y = {0, 1};
    panel.points.push_back(series);
    if (heatmap) {
      panel.equal_aspect = true;
      panel.heatmap.emplace().values = RowMatrixF::Zero(8, 8);
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

// What a damaged file calls something must not hold up the page.
TEST(PageText, OfEndlessTextsABeginningIsShown) {
  const CairoSurface surface{cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1)};
  const CairoContext cairo{cairo_create(surface.get())};
  const auto width = [&](const std::string& text) {
    return measure_text(cairo.get(), text, {kLabelSize}).width;
  };
  EXPECT_GT(width(std::string(4000, 'x')), width(std::string(3999, 'x')));
  EXPECT_EQ(width(std::string(1'000'000, 'x')), width(std::string(5000, 'x')));
  std::string umlauts;
  while (umlauts.size() < 5000) umlauts += "aü";  // of three bytes: one is cut in its middle
  EXPECT_EQ(width(umlauts), width(umlauts + "b"));
}

TEST(PageMultiples, CellsAreOfOneSizeOnThePageAndApart) {
  for (const bool heatmap : {false, true})
    for (const double inches : {3.4, 7.0}) {
      const PageLayout page = lay_out(grid_of(16, 8, heatmap), inches);
      for (std::size_t i = 0; i < page.panels.size(); ++i) {
        const Box& cell = page.panels[i].plot;
        EXPECT_DOUBLE_EQ(cell.width, page.panels.front().plot.width);
        EXPECT_DOUBLE_EQ(cell.height, page.panels.front().plot.height);
        EXPECT_GE(cell.x, 0);
        EXPECT_LE(cell.right(), page.width);
        EXPECT_LE(cell.bottom(), page.caption_y);
        for (std::size_t j = 0; j < i; ++j) ASSERT_FALSE(overlap(cell, page.panels[j].plot));
      }
      if (heatmap) {
        EXPECT_DOUBLE_EQ(page.panels.front().plot.width, page.panels.front().plot.height);
      }
    }
}

TEST(PageMultiples, SixteenLayersFitOnAPage) {
  EXPECT_LE(lay_out(grid_of(16, 8, false), 7).height, 9.5 * 72);
  EXPECT_LE(lay_out(grid_of(16, 8, true), 7).height, 9.5 * 72);
  EXPECT_GE(lay_out(grid_of(80, 2, false), 7).panels.front().plot.height, 22) << "legible before it fits";
}

TEST(PageMultiples, TicksStandOnlyWhereAllCellsHaveTheSameAxes) {
  Figure figure = grid_of(3, 2, false);
  EXPECT_TRUE(lay_out(figure, 7).panels.front().ticks);
  figure.shared_ranges = false;
  EXPECT_FALSE(lay_out(figure, 7).panels.front().ticks);
  const PageLayout page = lay_out(grid_of(3, 2, true), 7);
  EXPECT_TRUE(page.panels[0].y_labels && !page.panels[0].x_labels) << "the outer cells alone";
  EXPECT_TRUE(!page.panels[5].y_labels && page.panels[5].x_labels);
}

TEST(PageMultiples, OneColourBarServesAllCells) {
  const PageLayout page = lay_out(grid_of(2, 2, true), 7);
  EXPECT_EQ(std::ranges::count_if(page.panels, [](const auto& place) { return place.colour_bar.width > 0; }),
            1);
  const Box& bar = page.panels.front().colour_bar;
  EXPECT_GT(bar.x, page.panels[1].plot.right());
  EXPECT_LE(bar.right(), page.width);
}

TEST(PageMultiples, NotesStandAboveEveryCellOrAboveNone) {
  const auto n_notes = [](const PageLayout& page) {
    return std::ranges::count_if(page.texts, [](const PlacedText& text) { return text.muted; });
  };
  EXPECT_EQ(n_notes(lay_out(grid_of(2, 3, false, "ρ 0.31"), 7)), 6);
  Figure figure = grid_of(2, 3, false, "ρ 0.31");
  figure.panels[4].note = std::string(300, 'm');
  EXPECT_EQ(n_notes(lay_out(figure, 7)), 0);
}

Heatmap zeros(int n_rows, int n_columns) {
  Heatmap heatmap;
  heatmap.values = RowMatrixF::Zero(n_rows, n_columns);
  return heatmap;
}

void expect_box(const Box& box, double x, double y, double width, double height) {
  EXPECT_DOUBLE_EQ(box.x, x);
  EXPECT_DOUBLE_EQ(box.y, y);
  EXPECT_DOUBLE_EQ(box.width, width);
  EXPECT_DOUBLE_EQ(box.height, height);
}

TEST(CellsBox, FillsAPlotOfTheHeatmapsOwnRanges) {
  Panel panel;
  panel.heatmap = zeros(4, 8);
  expect_box(cells_box(*panel.heatmap, data_ranges(panel), {10, 20, 80, 40}), 10, 20, 80, 40);
}

// Twice as many columns and four times as many rows are in sight: row 0 stays at the top.
TEST(CellsBox, IsAPartOfAPlotThatShowsMore) {
  const PanelRanges more{{0, 16}, {16, 0}, {}};
  expect_box(cells_box(zeros(4, 8), more, {10, 20, 80, 40}), 10, 20, 40, 10);
}

// The first of two matrices side by side is half as large as the other, and drawn so.
TEST(CellsBox, OfPanelsThatShareTheirAxesIsToOneScale) {
  Figure figure;
  figure.columns = 2;
  figure.shared_ranges = true;
  for (const int size : {4, 8}) figure.panels.emplace_back().heatmap = zeros(size, size);
  for (Panel& panel : figure.panels) panel.equal_aspect = true;
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1), cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> cairo(cairo_create(surface.get()), cairo_destroy);
  const PageLayout page = lay_out_page(cairo.get(), figure, 500);
  const auto box = [&](std::size_t i) {
    return cells_box(*figure.panels[i].heatmap, page.panels[i].ranges, page.panels[i].plot);
  };
  EXPECT_GT(page.panels[0].ranges.y.low, page.panels[0].ranges.y.high) << "rows run downwards";
  EXPECT_NEAR(2 * box(0).width / page.panels[0].plot.width, box(1).width / page.panels[1].plot.width, 1e-12);
  EXPECT_NEAR(2 * box(0).height / page.panels[0].plot.height, box(1).height / page.panels[1].plot.height,
              1e-12);
  EXPECT_DOUBLE_EQ(box(0).y, page.panels[0].plot.y) << "row 0 is at the top of both";
}

// Blocks beside tokens: what came in one column is not smeared over its neighbours.
TEST(DrawHeatmap, FewColumnsBesideManyRowsAreDrawnOneByOne) {
  constexpr int kSize = 100, kColumns = 10;
  Heatmap heatmap = zeros(4000, kColumns);
  for (int column = 0; column < kColumns; column += 2) heatmap.values.col(column).setOnes();
  heatmap.high = 1;
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, kSize, kSize), cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> cairo(cairo_create(surface.get()), cairo_destroy);
  Page page;
  page.cairo = cairo.get();
  page.raster = true;
  draw_heatmap(page, heatmap, {0, 0, kSize, kSize});
  cairo_surface_flush(surface.get());
  const unsigned char* row = cairo_image_surface_get_data(surface.get()) +
                             std::ptrdiff_t{50} * cairo_image_surface_get_stride(surface.get());
  for (int column = 0; column < kColumns; ++column) {
    const Colour expected = colour_of(heatmap, column % 2 == 0 ? 1.0F : 0.0F);
    const unsigned char* pixel = row + std::ptrdiff_t{4} * (kSize / kColumns * column + 5);
    EXPECT_EQ(pixel[2], expected.r) << column;
    EXPECT_EQ(pixel[0], expected.b) << column;
  }
}

TEST(Orbit, KeepsLengths) {
  const Orbit orbit;
  const Turned turned = orbit.turn(1, -2, 3);
  EXPECT_NEAR(turned.x * turned.x + turned.y * turned.y + turned.depth * turned.depth, 14, 1e-12);
}

TEST(Orbit, FromTheFrontAndFromAboveShowsAxes) {
  const Turned front = Orbit{0, 0}.turn(1, 2, 3);
  EXPECT_NEAR(front.x, 1, 1e-12);
  EXPECT_NEAR(front.y, 3, 1e-12) << "the third axis stands upright";
  EXPECT_NEAR(front.depth, 2, 1e-12);
  const Turned above = Orbit{0, std::numbers::pi / 2}.turn(1, 2, 3);
  EXPECT_NEAR(above.x, 1, 1e-12);
  EXPECT_NEAR(above.y, 2, 1e-12);
  EXPECT_NEAR(above.depth, -3, 1e-12) << "what is high is near";
}

// The point nearest to the eye of a unit sphere.
TEST(Orbit, ADraggedPointAtTheFrontFollows) {
  Orbit orbit{0.4, 0.3};
  const double c = std::cos(orbit.elevation), s = std::sin(orbit.elevation);
  const double x = -std::sin(orbit.azimuth) * c, y = -std::cos(orbit.azimuth) * c, z = s;
  ASSERT_NEAR(orbit.turn(x, y, z).depth, -1, 1e-12);
  orbit.drag(0.1, 0);
  EXPECT_GT(orbit.turn(x, y, z).x, 0.05);
  orbit = {0.4, 0.3};
  orbit.drag(0, 0.1);
  EXPECT_LT(orbit.turn(x, y, z).y, -0.05);
  orbit.drag(0, 100);
  EXPECT_NEAR(orbit.elevation, std::numbers::pi / 2, 1e-12) << "never over the top";
}

}  // namespace

}  // namespace keyscope::figures
