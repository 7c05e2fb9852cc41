#include "app/figures/page_heatmap.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/scales.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/reduction.hpp"

namespace keyscope::figures {
namespace {

constexpr double kNumberSize = 7, kLeastNumberSize = 4;  // points, in cells

struct Destroy {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
using Surface = std::unique_ptr<cairo_surface_t, Destroy>;

std::uint32_t pixel_of(Colour colour) {
  return 0xFF000000U | static_cast<std::uint32_t>(colour.r) << 16 |
         static_cast<std::uint32_t>(colour.g) << 8 | colour.b;
}

void put_pixel(cairo_surface_t* image, int row, int column, std::uint32_t pixel) {
  const std::ptrdiff_t stride = cairo_image_surface_get_stride(image);
  unsigned char* line = cairo_image_surface_get_data(image) + row * stride;
  std::memcpy(line + std::ptrdiff_t{column} * 4, &pixel, sizeof pixel);
}

// The cells as an image, one pixel each.
Surface cell_image(const Heatmap& heatmap, const RowMatrixF& values) {
  Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(values.cols()),
                                           static_cast<int>(values.rows())));
  cairo_surface_flush(image.get());
  for (Eigen::Index row = 0; row < values.rows(); ++row)
    for (Eigen::Index column = 0; column < values.cols(); ++column)
      put_pixel(image.get(), static_cast<int>(row), static_cast<int>(column),
                pixel_of(colour_of(heatmap, values(row, column))));
  cairo_surface_mark_dirty(image.get());
  return image;
}

// How many cells become one where so many have to fit into so many pixels.
Eigen::Index cells_per_shown(Eigen::Index n_cells, double pixels) {
  if (static_cast<double>(n_cells) <= pixels) return 1;
  const auto room = std::max<Eigen::Index>(1, static_cast<Eigen::Index>(pixels));
  return (n_cells + room - 1) / room;
}

// Rows and columns each by themselves: few columns beside many rows keep their width and what they say.
struct FittedCells {
  RowMatrixF values;
  Eigen::Index rows_per_cell, cols_per_cell;
};

FittedCells fit_to_pixels(const Heatmap& heatmap, double width_px, double height_px) {
  const RowMatrixF& cells = heatmap.values;
  const Eigen::Index rows = cells_per_shown(cells.rows(), height_px),
                     cols = cells_per_shown(cells.cols(), width_px);
  if (rows == 1 && cols == 1) return {cells, 1, 1};
  ReducedMatrix reduced(cells.rows(), cells.cols(), rows, cols, parse_reduction(heatmap.reduction));
  reduced.add_rows(0, cells);
  return {reduced.finish(), rows, cols};
}

// By the luma of Rec. 709.
bool is_dark(Colour colour) { return 0.2126 * colour.r + 0.7152 * colour.g + 0.0722 * colour.b < 128; }

}  // namespace

Box cells_box(const Heatmap& heatmap, const PanelRanges& ranges, const Box& plot) {
  const double per_x = plot.width / ranges.x.width(), per_y = plot.height / -ranges.y.width();
  return {plot.x + (heatmap.x_first - ranges.x.low) * per_x,
          plot.y + (heatmap.y_first - ranges.y.high) * per_y, (heatmap.x_last() - heatmap.x_first) * per_x,
          (heatmap.y_last() - heatmap.y_first) * per_y};
}

void draw_heatmap(const Page& page, const Heatmap& heatmap, const Box& cells) {
  if (heatmap.values.size() == 0) return;
  const double scale = page.raster ? page.pixels_per_point : 1e9;  // a vector page keeps every cell
  const FittedCells shown = fit_to_pixels(heatmap, cells.width * scale, cells.height * scale);
  const Surface image = cell_image(heatmap, shown.values);
  const double cell_width = cells.width / (heatmap.x_last() - heatmap.x_first) * heatmap.x_step *
                            static_cast<double>(shown.cols_per_cell);
  const double cell_height = cells.height / (heatmap.y_last() - heatmap.y_first) * heatmap.y_step *
                             static_cast<double>(shown.rows_per_cell);
  cairo_save(page.cairo);
  cairo_rectangle(page.cairo, cells.x, cells.y, cells.width, cells.height);
  cairo_clip(page.cairo);
  cairo_translate(page.cairo, cells.x, cells.y);
  cairo_scale(page.cairo, cell_width, cell_height);
  cairo_set_source_surface(page.cairo, image.get(), 0, 0);
  cairo_pattern_set_filter(cairo_get_source(page.cairo), CAIRO_FILTER_NEAREST);
  cairo_paint(page.cairo);
  cairo_restore(page.cairo);
}

void draw_cell_numbers(const Page& page, const Heatmap& heatmap, const Box& cells) {
  if (heatmap.decimals < 0 || heatmap.values.size() == 0) return;
  const double width = cells.width / static_cast<double>(heatmap.values.cols());
  const double height = cells.height / static_cast<double>(heatmap.values.rows());
  const std::string widest = format_signed(heatmap.low < 0 ? -0.5 : 0.5, heatmap.decimals);
  const TextSize at_one = measure_text(page.cairo, widest, {1});
  const double size = std::min({kNumberSize, 0.85 * width / at_one.width, 0.85 * height / at_one.height});
  if (size < kLeastNumberSize) return;
  for (Eigen::Index row = 0; row < heatmap.values.rows(); ++row)
    for (Eigen::Index column = 0; column < heatmap.values.cols(); ++column) {
      const float value = heatmap.values(row, column);
      if (std::isnan(value)) continue;
      page.set_colour(is_dark(colour_of(heatmap, value)) ? Colour{0xFF, 0xFF, 0xFF} : kBlack);
      draw_text(page.cairo, format_signed(value, heatmap.decimals), {size},
                cells.x + (static_cast<double>(column) + 0.5) * width,
                cells.y + (static_cast<double>(row) + 0.5) * height, {0.5, 0.5});
    }
}

}  // namespace keyscope::figures
