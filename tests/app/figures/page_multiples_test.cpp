#include "app/figures/page_multiples.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

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

}  // namespace
}  // namespace keyscope::figures
