#include "app/figures/page_heatmap.hpp"

#include <cstddef>
#include <memory>

#include <gtest/gtest.h>

#include "app/figures/scales.hpp"
#include "app/drawing/page_layout.hpp"

namespace keyscope::figures {
namespace {

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

}  // namespace
}  // namespace keyscope::figures
