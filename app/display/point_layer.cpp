#include "app/display/point_layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <ranges>

#include "app/figures/scales.hpp"
#include "shaders/shaders.hpp"

namespace keyscope::window {

namespace {

constexpr int kShareBeyond = 8;    // of the plot, that the picture has beyond it on every side
constexpr float kStrokePx = 1.6F;  // of rings, at scale 1
constexpr float kDiscAlpha = 0.95F;
constexpr float kRingAlpha = 0.85F;  // what is retained comes first
constexpr float kCrossAlpha = 0.7F;
constexpr float kMostFading = 0.55F;       // of what is farthest away, towards the background
constexpr float kUnselectedFading = 0.8F;  // of what is not selected
constexpr float kMissingFading = 0.45F;    // of what has no value
constexpr float kLeastCoverage = 0.35F;    // in space

ImU32 mix(ImU32 from, ImU32 to, float share) {
  const ImVec4 a = ImGui::ColorConvertU32ToFloat4(from), b = ImGui::ColorConvertU32ToFloat4(to);
  return ImGui::ColorConvertFloat4ToU32(
      {a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share, a.z + (b.z - a.z) * share, a.w});
}

// Colours of values by their place in a table, so that a point costs one look into it.
class ValueInk {
 public:
  ValueInk(const figures::ColourScale& scale, const Theme& theme)
      : scale_(scale), missing_(mix(theme.dim, theme.plot, kMissingFading)) {
    const auto& table = figures::colour_table(scale.colour_map);
    const std::size_t n = scale.categories.empty() ? table.size() : scale.categories.size();
    for (std::size_t i = 0; i < n; ++i)
      inks_.push_back(
          ink_colour(theme, scale.categories.empty() ? table[i] : figures::category_colour(scale, i)));
  }

  ImU32 of(float value) const {
    if (std::isnan(value)) return missing_;
    const auto last = static_cast<float>(inks_.size() - 1);
    const float at = scale_.categories.empty() ? figures::scale_position(scale_, value) * last
                                               : std::clamp(value, 0.0F, last);
    return inks_[static_cast<std::size_t>(std::lround(at))];
  }

 private:
  const figures::ColourScale& scale_;
  ImU32 missing_;
  std::vector<ImU32> inks_;
};

}  // namespace

bool PointLayer::draws(const figures::PointSeries& series) {
  return series.marker == figures::Marker::kDisc || series.marker == figures::Marker::kRing ||
         series.marker == figures::Marker::kCross;
}

PointLayer::PointLayer() : program_(shaders::points_vert, shaders::points_frag) {
  glBindVertexArray(vertices_.get());
  glBindBuffer(GL_ARRAY_BUFFER, centres_.get());
  glEnableVertexAttribArray(0);
  glVertexAttribPointer(0, 3, GL_FLOAT, GL_FALSE, sizeof(Vertex), nullptr);
  glEnableVertexAttribArray(1);
  // OpenGL takes an offset into the buffer as a pointer.
  const auto* ink =
      reinterpret_cast<const void*>(offsetof(Vertex, ink));  // NOLINT(performance-no-int-to-ptr)
  glVertexAttribPointer(1, 4, GL_UNSIGNED_BYTE, GL_TRUE, sizeof(Vertex), ink);
  glBindVertexArray(0);
}

// Whether the picture has all of what `view` shows; then `shown_` says where.
bool PointLayer::still_shows(const PlotView& view) {
  if (empty_ || view.pixels_per_unit_x() != view_.pixels_per_unit_x() ||
      view.pixels_per_unit_y() != view_.pixels_per_unit_y())
    return false;
  const Pixel corner = view_.to_pixel(view.limits().x_low, view.limits().y_high);
  const int width = static_cast<int>(view.width()), height = static_cast<int>(view.height());
  const int left = static_cast<int>(std::lround(corner.x)), top = static_cast<int>(std::lround(corner.y));
  shown_ = {left, top, left + width, top + height};
  return left >= 0 && top >= 0 && shown_.x_high <= target_.width() && shown_.y_high <= target_.height();
}

void PointLayer::draw(const figures::Panel& panel, std::uint64_t panel_revision, const PlotView& view,
                      const Theme& theme, const std::vector<std::string>& hidden, float scale) {
  points_drawn_ = 0;
  Content content{panel_revision, theme.light, hidden, scale};
  if (content == content_ && still_shows(view)) return;
  content_ = std::move(content);
  const int width = std::max(1, static_cast<int>(view.width()));
  const int height = std::max(1, static_cast<int>(view.height()));
  const int beyond_x = width / kShareBeyond, beyond_y = height / kShareBeyond;
  target_.resize(width + 2 * beyond_x, height + 2 * beyond_y);
  view_ = view;
  view_.pan(0, 0);  // so that its new frame does not fit it again
  view_.set_frame(0, 0, static_cast<float>(target_.width()), static_cast<float>(target_.height()));
  shown_ = {beyond_x, beyond_y, beyond_x + width, beyond_y + height};
  draw_all(panel, theme);
  empty_ = false;
}

void PointLayer::draw_all(const figures::Panel& panel, const Theme& theme) {
  const int width = target_.width(), height = target_.height();
  glBindFramebuffer(GL_FRAMEBUFFER, target_.framebuffer());
  glDisable(GL_SCISSOR_TEST);
  glClearColor(0, 0, 0, 0);
  glClear(GL_COLOR_BUFFER_BIT);
  begin_depth(panel);
  glEnable(GL_BLEND);
  glBlendFunc(GL_ONE, GL_ONE_MINUS_SRC_ALPHA);
  glEnable(GL_PROGRAM_POINT_SIZE);
  glUseProgram(program_.get());
  glBindVertexArray(vertices_.get());
  for (const figures::PointSeries& series : panel.points) {
    if (!draws(series) || std::ranges::find(content_.hidden, series.id) != content_.hidden.end()) continue;
    // OpenGL drops sprites whose centre lies outside the viewport, so it reaches beyond the picture.
    const int beyond = static_cast<int>(std::ceil(series.size_px * content_.scale)) + 2;
    glViewport(-beyond, -beyond, width + 2 * beyond, height + 2 * beyond);
    glUniform2f(program_.uniform("viewport_px"), static_cast<float>(width + 2 * beyond),
                static_cast<float>(height + 2 * beyond));
    glUniform1f(program_.uniform("beyond_px"), static_cast<float>(beyond));
    draw_series(panel, series, theme);
  }
  glBindVertexArray(0);
  glUseProgram(0);
  glDisable(GL_DEPTH_TEST);
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
}

// In space, the range of depths that the test compares.
void PointLayer::begin_depth(const figures::Panel& panel) {
  glDisable(GL_DEPTH_TEST);
  depth_low_ = depth_high_ = 0;
  if (!panel.is_3d()) return;
  glEnable(GL_DEPTH_TEST);
  glDepthFunc(GL_LEQUAL);
  glClear(GL_DEPTH_BUFFER_BIT);
  for (const figures::PointSeries& series : panel.points) {
    if (series.z.empty()) continue;
    const auto [low, high] = std::ranges::minmax(series.z);
    depth_low_ = std::min(depth_low_, low);
    depth_high_ = std::max(depth_high_, high);
  }
}

namespace {

constexpr std::size_t kFew = 100;  // they hide nothing

// The closer points lie to each other, the more of those below can be seen through them: from 1, where they
// cover a tenth of the rectangle that they lie in, down to three quarters.
float openness(const std::vector<VisibleCentre>& centres, float diameter_px) {
  if (centres.size() < kFew) return 1;
  const auto [left, right] = std::ranges::minmax(centres | std::views::transform(&VisibleCentre::x));
  const auto [top, bottom] = std::ranges::minmax(centres | std::views::transform(&VisibleCentre::y));
  const float room = std::max(1.0F, (right - left) * (bottom - top));
  const float covered = static_cast<float>(centres.size()) * 0.785F * diameter_px * diameter_px / room;
  return std::clamp(1 - 0.18F * std::log10(std::max(covered, 0.1F) / 0.1F), 0.75F, 1.0F);
}

}  // namespace

void PointLayer::fill_vertices(const figures::Panel& panel, const figures::PointSeries& series,
                               const Theme& theme) {
  const bool ring = series.marker == figures::Marker::kRing;
  const float most = series.marker == figures::Marker::kDisc ? kDiscAlpha : ring ? kRingAlpha : kCrossAlpha;
  const float alpha = panel.is_3d() ? most : most * openness(centres_seen_, series.size_px);
  const auto ink_of = [&](ImU32 ink, float share) { return with_alpha(mix(ink, theme.plot, share), alpha); };
  std::optional<ValueInk> values;
  if (panel.scale && !series.value.empty()) values.emplace(*panel.scale, theme);
  const float fading = series.faded ? kUnselectedFading : 0;
  const ImU32 own = ink_colour(theme, series.colour), plain = ink_of(own, fading);
  const bool space = panel.is_3d();
  const float range = depth_high_ > depth_low_ ? depth_high_ - depth_low_ : 1;
  buffer_.clear();
  for (const VisibleCentre& centre : centres_seen_) {
    Vertex vertex{centre.x, centre.y, 0, plain};
    if (space) vertex.depth = (series.z[centre.at] - depth_low_) / range;
    if (values || space)
      vertex.ink = ink_of(values ? values->of(series.value[centre.at]) : own,
                          std::max(fading, space ? kMostFading * vertex.depth : 0));
    buffer_.push_back(vertex);
  }
}

void PointLayer::draw_series(const figures::Panel& panel, const figures::PointSeries& series,
                             const Theme& theme) {
  const PixelRect part{0, 0, target_.width(), target_.height()};
  const float diameter = series.size_px * content_.scale;
  if (panel.is_3d())
    nearest_centres(series, view_, part, diameter, centres_seen_, nearest_);
  else
    visible_centres(series, view_, part, diameter, centres_seen_, occupied_);
  if (centres_seen_.empty()) return;
  fill_vertices(panel, series, theme);
  const bool disc = series.marker == figures::Marker::kDisc;
  glUniform1i(program_.uniform("cross"), series.marker == figures::Marker::kCross ? 1 : 0);
  glUniform1f(program_.uniform("least_coverage"), panel.is_3d() ? kLeastCoverage : 0);
  glUniform1f(program_.uniform("diameter_px"), diameter);
  glUniform1f(program_.uniform("stroke_px"),
              disc ? 0 : std::min(kStrokePx * content_.scale, 0.32F * diameter));
  glBindBuffer(GL_ARRAY_BUFFER, centres_.get());
  glBufferData(GL_ARRAY_BUFFER, static_cast<GLsizeiptr>(buffer_.size() * sizeof(Vertex)), buffer_.data(),
               GL_STREAM_DRAW);
  const auto n_points = static_cast<GLsizei>(buffer_.size());
  glDrawArrays(GL_POINTS, 0, n_points);
  points_drawn_ += n_points;
}

namespace {

// A part of the plot and what reaches into it, in half pixels.
class CellGrid {
 public:
  CellGrid(const PlotView& view, const PixelRect& part, float diameter_px)
      : scale_x_(view.pixels_per_unit_x()), scale_y_(view.pixels_per_unit_y()), centre_(view.centre()) {
    // Whole pixels, so that the cells are the same ones for every part of the plot.
    const float margin = std::ceil(0.5F * diameter_px) + 1;
    left_ = static_cast<float>(part.x_low) - margin;
    top_ = static_cast<float>(part.y_low) - margin;
    width_ = static_cast<float>(part.x_high - part.x_low) + 2 * margin;
    height_ = static_cast<float>(part.y_high - part.y_low) + 2 * margin;
    columns_ = static_cast<std::size_t>(width_ * kCellsPerPixel) + 1;
    rows_ = static_cast<std::size_t>(height_ * kCellsPerPixel) + 1;
    // The part's corner is where pixels are counted from, in float64: a deep zoom loses nothing.
    x_origin_ = 0.5 * view.width() - left_;
    y_origin_ = 0.5 * view.height() - top_;
  }

  struct Place {
    float x = 0, y = 0;  // pixels of the plot
    std::size_t cell = 0;
  };

  // Empty where the point is not in sight.
  std::optional<Place> place(float point_x, float point_y) const {
    const auto x = static_cast<float>(x_origin_ + (point_x - centre_.x) * scale_x_);
    const auto y = static_cast<float>(y_origin_ - (point_y - centre_.y) * scale_y_);
    if (!(x > 0 && x < width_ && y > 0 && y < height_)) return std::nullopt;
    const auto column = static_cast<std::size_t>(x * kCellsPerPixel);
    const auto row = static_cast<std::size_t>(y * kCellsPerPixel);
    return Place{x + left_, y + top_, row * columns_ + column};
  }

  std::size_t n_cells() const { return columns_ * rows_; }

  // Leaves the frontmost centre in every square of some pixels.
  //   in_front(a, b): whether a, which comes later in `centres`, lies in front of b
  template <typename InFront>
  void keep_frontmost(int side_px, const InFront& in_front, std::vector<VisibleCentre>& centres) const {
    const std::size_t cells = std::size_t{kCellsPerPixel} * static_cast<std::size_t>(side_px);
    const std::size_t columns = columns_ / cells + 1, rows = rows_ / cells + 1;
    const float squares = 1 / static_cast<float>(side_px);
    const auto square = [&](const VisibleCentre& centre) {
      return static_cast<std::size_t>((centre.y - top_) * squares) * columns +
             static_cast<std::size_t>((centre.x - left_) * squares);
    };
    std::vector<std::uint32_t> front(columns * rows);  // a centre's place, plus one
    for (std::size_t i = 0; i < centres.size(); ++i) {
      std::uint32_t& held = front[square(centres[i])];
      if (held == 0 || in_front(centres[i], centres[held - 1])) held = static_cast<std::uint32_t>(i) + 1;
    }
    std::size_t n_kept = 0;
    for (std::size_t i = 0; i < centres.size(); ++i)
      if (front[square(centres[i])] == i + 1) centres[n_kept++] = centres[i];
    centres.resize(n_kept);
  }

  // Squares grow until few enough are left, or until they would be seen.
  template <typename InFront>
  void thin_out(float diameter_px, const InFront& in_front, std::vector<VisibleCentre>& centres) const {
    constexpr float kMostOfADiameter = 0.5F;  // that a square's side is
    for (int side_px = 1; centres.size() > kMostCentres; side_px *= 2) {
      if (static_cast<float>(side_px) > kMostOfADiameter * diameter_px) return;
      keep_frontmost(side_px, in_front, centres);
    }
  }

 private:
  static constexpr int kCellsPerPixel = 2;

  double scale_x_, scale_y_;
  PlotPoint centre_;
  float left_ = 0, top_ = 0, width_ = 0, height_ = 0;
  std::size_t columns_ = 0, rows_ = 0;
  double x_origin_ = 0, y_origin_ = 0;
};

}  // namespace

void visible_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out,
                     std::vector<std::uint64_t>& occupied) {
  const CellGrid grid(view, part, diameter_px);
  occupied.assign((grid.n_cells() + 63) / 64, 0);
  out.clear();
  // From the last drawn to the first, so that what is kept is what lies on top.
  for (std::size_t i = series.x.size(); i-- > 0;) {
    const auto place = grid.place(series.x[i], series.y[i]);
    if (!place) continue;
    const std::uint64_t bit = std::uint64_t{1} << (place->cell % 64);
    if ((occupied[place->cell / 64] & bit) != 0) continue;
    occupied[place->cell / 64] |= bit;
    out.push_back({place->x, place->y, static_cast<std::uint32_t>(i)});
  }
  std::ranges::reverse(out);
  grid.thin_out(
      diameter_px, [](const auto&, const auto&) { return true; }, out);
}

void nearest_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out,
                     std::vector<std::uint32_t>& nearest) {
  const CellGrid grid(view, part, diameter_px);
  nearest.assign(grid.n_cells(), 0);  // a point's index, plus one
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const auto place = grid.place(series.x[i], series.y[i]);
    if (!place) continue;
    std::uint32_t& front = nearest[place->cell];
    if (front == 0 || series.z[i] <= series.z[front - 1]) front = static_cast<std::uint32_t>(i) + 1;
  }
  out.clear();
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const auto place = grid.place(series.x[i], series.y[i]);
    if (place && nearest[place->cell] == i + 1)
      out.push_back({place->x, place->y, static_cast<std::uint32_t>(i)});
  }
  grid.thin_out(
      diameter_px, [&](const auto& a, const auto& b) { return series.z[a.at] <= series.z[b.at]; }, out);
}

}  // namespace keyscope::window
