#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "app/drawing/page_layout.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/space_box.hpp"

namespace keyscope::figures {

namespace {

constexpr double kLabelRoom = 28;  // points around the box
constexpr double kLeastTickDistance = 16;

using Point3 = std::array<double, 3>;

using Projected = Turned;

// The low or the high end of each axis: bits, as BoxFrame has them.
constexpr bool is_high(std::size_t corner, std::size_t axis) { return (corner >> axis & 1U) != 0; }

// Turns data into page coordinates. The box spans the ranges; with equal aspect a unit is as long on every
// axis.
class Camera {
 public:
  Camera(const Panel& panel, const PanelLayout& place)
      : orbit_(panel.orbit), ranges_{place.ranges.x, place.ranges.y, place.ranges.z} {
    double largest = 0;
    for (const Range& range : ranges_) largest = std::max(largest, range.width());
    for (std::size_t axis = 0; axis < 3; ++axis)
      side_[axis] = panel.equal_aspect ? std::max(0.35, ranges_[axis].width() / largest) : 1;
    fit(place.plot);
  }

  Projected project(const Point3& value) const {
    Point3 unit;
    for (std::size_t axis = 0; axis < 3; ++axis)
      unit[axis] = ((value[axis] - ranges_[axis].low) / ranges_[axis].width() - 0.5) * side_[axis];
    Projected flat = turn(unit);
    return {centre_x_ + flat.x * scale_, centre_y_ - flat.y * scale_, flat.depth};
  }

  Point3 corner(std::size_t corner) const {
    Point3 at;
    for (std::size_t axis = 0; axis < 3; ++axis)
      at[axis] = is_high(corner, axis) ? ranges_[axis].high : ranges_[axis].low;
    return at;
  }

  const BoxFrame& frame() const { return frame_; }
  Projected middle() const { return {centre_x_, centre_y_, 0}; }
  const Range& range(std::size_t axis) const { return ranges_[axis]; }

  // As many as there is room for along the axis on the page.
  std::vector<Tick> ticks(std::size_t axis) const {
    const Projected a = project(corner(0));
    const Projected b = project(corner(std::size_t{1} << axis));
    const int fitting = static_cast<int>(std::hypot(b.x - a.x, b.y - a.y) / kLeastTickDistance);
    if (fitting < 1) return {};  // it points at the eye
    return linear_ticks(ranges_[axis].low, ranges_[axis].high, std::clamp(fitting, 2, 5));
  }

 private:
  Projected turn(const Point3& p) const { return orbit_.turn(p[0], p[1], p[2]); }

  void fit(const Box& plot) {
    double half_width = 0, half_height = 0;
    std::array<Projected, 8> corners;
    for (std::size_t i = 0; i < corners.size(); ++i) {
      const auto end = [&](std::size_t axis) { return (is_high(i, axis) ? 0.5 : -0.5) * side_[axis]; };
      const Projected& flat = corners[i] = turn({end(0), end(1), end(2)});
      half_width = std::max(half_width, std::abs(flat.x));
      half_height = std::max(half_height, std::abs(flat.y));
    }
    frame_ = box_frame(corners);
    scale_ =
        std::min((plot.width / 2 - kLabelRoom) / half_width, (plot.height / 2 - kLabelRoom) / half_height);
    centre_x_ = plot.x + plot.width / 2;
    centre_y_ = plot.y + plot.height / 2 - kLabelRoom / 4;
  }

  Orbit orbit_;
  std::array<Range, 3> ranges_;
  BoxFrame frame_;
  Point3 side_{1, 1, 1};
  double scale_ = 1, centre_x_ = 0, centre_y_ = 0;
};

void edge(cairo_t* cairo, const Camera& camera, const Point3& from, const Point3& to) {
  const Projected a = camera.project(from), b = camera.project(to);
  cairo_move_to(cairo, a.x, a.y);
  cairo_line_to(cairo, b.x, b.y);
  cairo_stroke(cairo);
}

// Lines of one axis' ticks on the floor and on the walls, which are the sides away from the eye.
void draw_walls(const Page& page, const Camera& camera) {
  page.set_colour(page.theme.grid);
  cairo_set_line_width(page.cairo, 0.5);
  const Point3 behind = camera.corner(~camera.frame().nearest);
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (const Tick& tick : camera.ticks(axis))
      for (const std::size_t along : {(axis + 1) % 3, (axis + 2) % 3}) {
        Point3 from = behind, to = behind;
        from[axis] = to[axis] = tick.value;
        from[along] = camera.range(along).low;
        to[along] = camera.range(along).high;
        edge(page.cairo, camera, from, to);
      }
}

void draw_outline(const Page& page, const Camera& camera) {
  page.set_colour(page.theme.frame);
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::size_t from = 0; from < 8; ++from)
      if (!is_high(from, axis) && camera.frame().is_drawn(from, axis))
        edge(page.cairo, camera, camera.corner(from), camera.corner(from | std::size_t{1} << axis));
}

// Tick labels and the axis label along one edge of the box, on the side away from the box's middle.
void label_edge(const Page& page, const Camera& camera, const std::string& label, std::size_t axis,
                double tick_distance, double label_distance) {
  const std::size_t low = camera.frame().labelled[axis];
  const Point3 edge_low = camera.corner(low);
  const Projected a = camera.project(edge_low),
                  b = camera.project(camera.corner(low | std::size_t{1} << axis)), middle = camera.middle();
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  const double centre_x = (a.x + b.x) / 2, centre_y = (a.y + b.y) / 2;
  double out_x = 0, out_y = -1;
  if (length > 0) out_x = (b.y - a.y) / length, out_y = -(b.x - a.x) / length;
  if ((centre_x - middle.x) * out_x + (centre_y - middle.y) * out_y < 0) out_x = -out_x, out_y = -out_y;
  page.set_colour(page.theme.ink);
  Point3 at = edge_low;
  for (const Tick& tick : camera.ticks(axis)) {
    at[axis] = tick.value;
    const Projected place = camera.project(at);
    draw_text(page.cairo, tick.label, {kTickSize}, place.x + out_x * tick_distance,
              place.y + out_y * tick_distance, {0.5, 0.5});
  }
  double angle = std::atan2(b.y - a.y, b.x - a.x);
  if (angle > std::numbers::pi / 2 + 0.01) angle -= std::numbers::pi;
  if (angle < -std::numbers::pi / 2 - 0.01) angle += std::numbers::pi;
  draw_text(page.cairo, label, {kLabelSize}, centre_x + out_x * label_distance,
            centre_y + out_y * label_distance, {0.5, 0.5}, angle);
}

}  // namespace

void draw_space_frame(const Page& page, const Panel& panel, const PanelLayout& place) {
  const Camera camera(panel, place);
  draw_walls(page, camera);
  draw_outline(page, camera);
  label_edge(page, camera, panel.x.label, 0, 8, 22);
  label_edge(page, camera, panel.y.label, 1, 8, 22);
  label_edge(page, camera, panel.z.label, 2, 10, 25);
}

std::vector<PlacedPoint> place_in_space(const Panel& panel, const PanelLayout& place) {
  const Camera camera(panel, place);
  std::vector<PlacedPoint> points;
  for (std::size_t s = 0; s < panel.points.size(); ++s) {
    const PointSeries& series = panel.points[s];
    const std::size_t n = std::min({series.x.size(), series.y.size(), series.z.size()});
    for (std::size_t i = 0; i < n; ++i) {
      const Projected at = camera.project({series.x[i], series.y[i], series.z[i]});
      if (std::isfinite(at.x) && std::isfinite(at.y)) points.push_back({at.x, at.y, s, i, at.depth});
    }
  }
  std::ranges::stable_sort(points, std::greater<>(), &PlacedPoint::faded);
  if (points.empty()) return points;
  const double far = points.front().faded, near = points.back().faded;
  for (PlacedPoint& point : points) point.faded = far > near ? (point.faded - near) / (far - near) : 0;
  // Landmarks are never hidden.
  std::ranges::stable_partition(points,
                                [&](const PlacedPoint& p) { return !panel.points[p.series].token.empty(); });
  return points;
}

}  // namespace keyscope::figures
