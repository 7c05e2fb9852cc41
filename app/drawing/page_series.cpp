#include "app/figures/page_markers.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "app/figures/scales.hpp"

namespace keyscope::figures {
namespace {

constexpr double kPointsPerPixel = 0.75;  // PointSeries::size_px is at 96 dpi
constexpr double kHalo = 0.7;             // points, around the few markers that stand for a mean
constexpr double kMostFading = 0.55;
constexpr double kUnselectedFading = 1.3;  // of that

struct Destroy {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* cairo) const { cairo_destroy(cairo); }
};
using Surface = std::unique_ptr<cairo_surface_t, Destroy>;
using Context = std::unique_ptr<cairo_t, Destroy>;

bool is_landmark(const PointSeries& series) { return series.token.empty(); }

// Clouds are a little transparent, so that their density shows; what was retained stands out of large ones.
double opacity(const PointSeries& series) {
  if (is_landmark(series)) return 1;
  if (series.x.size() <= 2000) return 0.85;
  return series.marker == Marker::kRing || series.marker == Marker::kCross ? 0.5 : 0.75;
}

Colour fade(Colour colour, Colour ground, double share) {
  const auto mix = [&](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(from + (to - from) * share * kMostFading));
  };
  return {mix(colour.r, ground.r), mix(colour.g, ground.g), mix(colour.b, ground.b)};
}

// A point's own colour: by its value where it has one, paler the farther it stands back.
Colour colour_of_point(const Page& page, const Panel& panel, const PlacedPoint& point) {
  const PointSeries& series = panel.points[point.series];
  Colour colour = series.colour;
  if (panel.scale && !series.value.empty()) {
    const float value = series.value.at(point.at);
    colour = std::isnan(value) ? page.theme.frame : colour_of(*panel.scale, value);
  }
  return fade(page.theme.of_series(colour), page.theme.ground,
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
  page.set_colour(page.theme.ground);
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
    const Context cairo(cairo_create(mask_.get()));
    cairo_translate(cairo.get(), half_ + 0.5, half_ + 0.5);
    cairo_scale(cairo.get(), pixels_per_point, pixels_per_point);
    paint_path(cairo.get(), add_path(cairo.get(), series.marker, 0, 0, diameter), diameter);
  }

  // x, y: device pixels
  void press(cairo_t* cairo, double x, double y) const {
    cairo_mask_surface(cairo, mask_.get(), std::floor(x) - half_, std::floor(y) - half_);
  }

 private:
  Surface mask_;
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
  const Surface image(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, width, height));
  const Context context(cairo_create(image.get()));
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

PointSeries marker_of(const LineSeries& line) {
  PointSeries look;
  look.colour = line.colour;
  look.marker = line.marker.value();
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

}  // namespace keyscope::figures
