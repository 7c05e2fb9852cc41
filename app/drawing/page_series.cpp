#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include <fmt/format.h>

#include "app/drawing/page_layout.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/density.hpp"
#include "app/figures/reduction.hpp"
#include "app/figures/scales.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

constexpr double kPointsPerPixel = 0.75;  // PointSeries::size_px is at 96 dpi
constexpr double kHalo = 0.7;             // points, around the few markers that stand for a mean
constexpr double kMostFading = 0.55;
constexpr double kUnselectedFading = 1.3;  // of that

bool is_landmark(const PointSeries& series) { return series.token.empty(); }

// Clouds are a little transparent, so that their density shows; what was retained stands out of large ones.
double opacity(const PointSeries& series) {
  if (is_landmark(series)) return 1;
  if (series.x.size() <= 2000) return 0.85;
  return series.marker == Marker::kRing || series.marker == Marker::kCross ? 0.5 : 0.75;
}

Colour fade(Colour colour, Colour background, double share) {
  const auto mix = [&](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(from + (to - from) * share * kMostFading));
  };
  return {mix(colour.r, background.r), mix(colour.g, background.g), mix(colour.b, background.b)};
}

// A point's own colour: by its value where it has one, paler the farther it stands back.
Colour colour_of_point(const Page& page, const Panel& panel, const PlacedPoint& point) {
  const PointSeries& series = panel.points[point.series];
  Colour colour = series.colour;
  if (panel.scale && !series.value.empty()) {
    const float value = series.value.at(point.at);
    colour = std::isnan(value) ? page.theme.frame : colour_of(*panel.scale, value);
  }
  return fade(page.theme.of_series(colour), page.theme.background,
              series.faded ? kUnselectedFading : point.faded);
}

void polygon(cairo_t* cairo, double x, double y, double radius, int corners, double start) {
  for (int i = 0; i < corners; ++i) {
    const double angle = start + 2 * std::numbers::pi * i / corners;
    cairo_line_to(cairo, x + radius * std::cos(angle), y + radius * std::sin(angle));
  }
  cairo_close_path(cairo);
}

void star(cairo_t* cairo, double x, double y, double radius) {
  for (int i = 0; i < 10; ++i) {
    const double angle = (2 * i - 5) * std::numbers::pi / 10, reach = i % 2 == 0 ? radius : 0.42 * radius;
    cairo_line_to(cairo, x + reach * std::cos(angle), y + reach * std::sin(angle));
  }
  cairo_close_path(cairo);
}

double diameter_of(const Page& page, const PointSeries& series) {
  return series.size_px * kPointsPerPixel * page.marker_scale;
}

// Adds a marker of the given diameter to the current path; true if it is to be filled, false if stroked.
bool add_path(cairo_t* cairo, Marker marker, double x, double y, double diameter) {
  const double radius = diameter / 2;
  switch (marker) {
    case Marker::kDiamond:
      polygon(cairo, x, y, radius * 1.15, 4, 0);
      return true;
    case Marker::kTriangle:
      polygon(cairo, x, y + radius * 0.1, radius * 1.2, 3, -std::numbers::pi / 2);
      return true;
    case Marker::kCross: {
      const double arm = radius * 0.8;
      cairo_move_to(cairo, x - arm, y - arm), cairo_line_to(cairo, x + arm, y + arm);
      cairo_move_to(cairo, x - arm, y + arm), cairo_line_to(cairo, x + arm, y - arm);
      return false;
    }
    case Marker::kPlus: {
      const double arm = radius * 1.05;
      cairo_move_to(cairo, x - arm, y), cairo_line_to(cairo, x + arm, y);
      cairo_move_to(cairo, x, y - arm), cairo_line_to(cairo, x, y + arm);
      return false;
    }
    case Marker::kRing:
      cairo_new_sub_path(cairo);
      cairo_arc(cairo, x, y, radius * 0.82, 0, 2 * std::numbers::pi);
      return false;
    case Marker::kSquare:
      polygon(cairo, x, y, radius * 1.2, 4, std::numbers::pi / 4);
      return true;
    case Marker::kOpenSquare:
      polygon(cairo, x, y, radius * 1.1, 4, std::numbers::pi / 4);
      return false;
    case Marker::kDownTriangle:
      polygon(cairo, x, y - radius * 0.1, radius * 1.2, 3, std::numbers::pi / 2);
      return true;
    case Marker::kOpenDownTriangle:
      polygon(cairo, x, y - radius * 0.1, radius * 1.1, 3, std::numbers::pi / 2);
      return false;
    case Marker::kOpenDiamond:
      polygon(cairo, x, y, radius * 1.1, 4, 0);
      return false;
    case Marker::kStar:
      star(cairo, x, y, radius * 1.35);
      return true;
    case Marker::kCircle:
      cairo_new_sub_path(cairo);
      cairo_arc(cairo, x, y, radius, 0, 2 * std::numbers::pi);
      return false;
    case Marker::kDisc:
      break;
  }
  cairo_new_sub_path(cairo);
  cairo_arc(cairo, x, y, radius, 0, 2 * std::numbers::pi);
  return true;
}

double line_width(double diameter) { return std::clamp(diameter * 0.22, 0.5, 1.2); }

void paint_path(cairo_t* cairo, bool filled, double diameter) {
  cairo_set_line_width(cairo, line_width(diameter));
  filled ? cairo_fill(cairo) : cairo_stroke(cairo);
}

void draw_halo(const Page& page, const PointSeries& series, double x, double y, double diameter) {
  page.set_colour(page.theme.background);
  if (add_path(page.cairo, series.marker, x, y, diameter)) cairo_fill_preserve(page.cairo);
  cairo_set_line_width(page.cairo, 2 * kHalo);
  cairo_stroke(page.cairo);
}

// A marker as a mask of device pixels, drawn once and then stamped many times.
class Stamp {
 public:
  Stamp(const Page& page, const PointSeries& series) {
    const double diameter = diameter_of(page, series), pixels_per_point = page.pixels_per_point;
    half_ = static_cast<int>(std::ceil(diameter * 0.7 * pixels_per_point)) + 1;
    mask_.reset(cairo_image_surface_create(CAIRO_FORMAT_A8, 2 * half_ + 1, 2 * half_ + 1));
    const CairoContext cairo(cairo_create(mask_.get()));
    cairo_translate(cairo.get(), half_ + 0.5, half_ + 0.5);
    cairo_scale(cairo.get(), pixels_per_point, pixels_per_point);
    paint_path(cairo.get(), add_path(cairo.get(), series.marker, 0, 0, diameter), diameter);
  }

  // x, y: device pixels
  void press(cairo_t* cairo, double x, double y) const {
    cairo_mask_surface(cairo, mask_.get(), std::floor(x) - half_, std::floor(y) - half_);
  }

 private:
  CairoSurface mask_;
  int half_ = 0;
};

// On a context whose user space is device pixels, with the page's origin at (-origin_x, -origin_y) pixels.
void stamp_points(const Page& page, cairo_t* cairo, const Panel& panel,
                  const std::vector<PlacedPoint>& points, double origin_x, double origin_y) {
  const double scale = page.pixels_per_point;
  std::vector<Stamp> stamps;
  stamps.reserve(panel.points.size());
  for (const PointSeries& each : panel.points) stamps.emplace_back(page, each);
  Page target = page;
  target.cairo = cairo;
  for (const PlacedPoint& point : points) {
    const PointSeries& look = panel.points[point.series];
    if (is_landmark(look)) {
      cairo_save(cairo);
      cairo_translate(cairo, -origin_x, -origin_y);
      cairo_scale(cairo, scale, scale);
      draw_marker(target, look, point.x, point.y);
      cairo_restore(cairo);
      continue;
    }
    target.set_colour(colour_of_point(page, panel, point), opacity(look));
    stamps[point.series].press(cairo, point.x * scale - origin_x, point.y * scale - origin_y);
  }
}

void draw_as_image(const Page& page, const Panel& panel, const std::vector<PlacedPoint>& points,
                   const Box& clip) {
  const double scale = page.pixels_per_point;
  const int width = static_cast<int>(std::ceil(clip.width * scale));
  const int height = static_cast<int>(std::ceil(clip.height * scale));
  const CairoSurface image(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, width, height));
  const CairoContext context(cairo_create(image.get()));
  stamp_points(page, context.get(), panel, points, clip.x * scale, clip.y * scale);
  cairo_save(page.cairo);
  cairo_translate(page.cairo, clip.x, clip.y);
  cairo_scale(page.cairo, 1 / scale, 1 / scale);
  cairo_set_source_surface(page.cairo, image.get(), 0, 0);
  cairo_paint(page.cairo);
  cairo_restore(page.cairo);
}

// Neighbours of one look share a path: half the file's size, and far fewer objects.
void draw_as_paths(const Page& page, const Panel& panel, const std::vector<PlacedPoint>& points) {
  for (const PlacedPoint& point : points) {
    const PointSeries& look = panel.points[point.series];
    if (is_landmark(look)) {
      draw_marker(page, look, point.x, point.y);
      continue;
    }
    const double diameter = diameter_of(page, look);
    page.set_colour(colour_of_point(page, panel, point), opacity(look));
    paint_path(page.cairo, add_path(page.cairo, look.marker, point.x, point.y, diameter), diameter);
  }
}

}  // namespace

PointSeries marker_look(Colour colour, Marker marker) {
  PointSeries look;
  look.colour = colour;
  look.marker = marker;
  look.size_px = 6;
  return look;
}

void draw_marker(const Page& page, const PointSeries& series, double x, double y) {
  const double diameter = diameter_of(page, series);
  cairo_new_path(page.cairo);
  if (is_landmark(series)) draw_halo(page, series, x, y, diameter);
  page.set_colour(page.theme.of_series(series.colour));
  paint_path(page.cairo, add_path(page.cairo, series.marker, x, y, diameter), diameter);
}

bool draw_points(const Page& page, const Panel& panel, const std::vector<PlacedPoint>& points,
                 const Box& clip, std::size_t max_vector_points) {
  cairo_save(page.cairo);
  cairo_rectangle(page.cairo, clip.x, clip.y, clip.width, clip.height);
  cairo_clip(page.cairo);
  const bool as_image = !page.raster && points.size() > max_vector_points;
  if (as_image) {
    draw_as_image(page, panel, points, clip);
  } else if (page.raster) {
    cairo_identity_matrix(page.cairo);
    stamp_points(page, page.cairo, panel, points, 0, 0);
  } else {
    draw_as_paths(page, panel, points);
  }
  cairo_restore(page.cairo);
  return as_image;
}

namespace {

constexpr double kHexagonRadius = 3.2, kPeakSize = 6.5;  // points

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

// The fullest first; where one has no room the next ones are tried.
void name_peaks(const Page& page, const std::vector<DensityPeak>& peaks, const PlotScale& scale,
                const Box& plot, double radius) {
  std::vector<Box> taken;
  for (const DensityPeak& peak : peaks) {
    const auto size = measure_text(page.cairo, peak.label, {kPeakSize});
    const Box box{scale.page_x(peak.x) + radius, scale.page_y(peak.y) - size.height / 2, size.width,
                  size.height};
    if (box.right() > plot.right() || box.y < plot.y || box.bottom() > plot.bottom() ||
        std::ranges::any_of(taken, [&](const Box& other) { return overlap(box, other); }))
      continue;
    taken.push_back(box);
    page.set_colour(page.theme.background, 0.8);
    cairo_rectangle(page.cairo, box.x - 1, box.y, box.width + 2, box.height);
    cairo_fill(page.cairo);
    page.set_colour(page.theme.ink);
    draw_text(page.cairo, peak.label, {kPeakSize}, box.x, box.y, {0, 0});
  }
}

}  // namespace

void draw_density(const Page& page, const Panel& panel, const PanelLayout& place) {
  const PlotScale scale{place.ranges.x, place.ranges.y, place.plot};
  const auto& [x, y, z] = place.ranges;
  const double x_unit = place.plot.width / x.width(), y_unit = place.plot.height / std::abs(y.width());
  const double radius = panel.hexagon > 0 ? panel.hexagon * x_unit : kHexagonRadius;
  const Density density =
      density_of(panel, {}, {x.low, x.high, std::min(y.low, y.high), std::max(y.low, y.high)}, x_unit, y_unit,
                 radius, kNamedPeaks);
  cairo_save(page.cairo);
  cairo_rectangle(page.cairo, place.plot.x, place.plot.y, place.plot.width, place.plot.height);
  cairo_clip(page.cairo);
  const std::vector<double> corners = hexagon(radius);
  for (const DensityCell& cell : density.cells) {
    page.set_colour(page.theme.of_series(cell.colour), cell.opacity);
    for (std::size_t i = 0; i < corners.size(); i += 2)
      cairo_line_to(page.cairo, scale.page_x(cell.x) + corners[i], scale.page_y(cell.y) + corners[i + 1]);
    cairo_fill(page.cairo);
  }
  name_peaks(page, density.peaks, scale, place.plot, radius);
  cairo_restore(page.cairo);
}

namespace {

constexpr double kNumberSize = 7, kLeastNumberSize = 4;  // points, in cells

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
CairoSurface cell_image(const Heatmap& heatmap, const RowMatrixF& values) {
  CairoSurface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(values.cols()),
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
  const CairoSurface image = cell_image(heatmap, shown.values);
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
