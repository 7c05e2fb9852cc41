#include "app/window/point_layer.hpp"

#include <algorithm>
#include <cmath>

#include "shaders/shaders.hpp"

namespace keyscope::window {
namespace {

constexpr float kStrokePx = 1.6F;  // of rings, at scale 1
constexpr float kDiscAlpha = 0.95F;
constexpr float kRingAlpha = 0.85F;  // what is retained comes first
constexpr int kCellsPerPixel = 2;

void clear_to(ImU32 colour) {
  const ImVec4 c = ImGui::ColorConvertU32ToFloat4(colour);
  glClearColor(c.x, c.y, c.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
}

// Lines one pixel wide, as clears of a column or row: they lie under the points at no cost.
void draw_grid(const PlotGrid& grid, ImU32 colour, int width, int height) {
  glEnable(GL_SCISSOR_TEST);
  for (const float x : grid.x_px) {
    glScissor(static_cast<int>(x), 0, 1, height);
    clear_to(colour);
  }
  for (const float y : grid.y_px) {
    glScissor(0, height - 1 - static_cast<int>(y), width, 1);
    clear_to(colour);
  }
  glDisable(GL_SCISSOR_TEST);
}

}  // namespace

void visible_centres(const figures::PointSeries& series, const PlotView& view, float diameter_px,
                     std::vector<float>& out, std::vector<std::uint64_t>& occupied) {
  const float margin = 0.5F * diameter_px + 1;
  const float width = view.width();
  const float height = view.height();
  const auto columns = static_cast<std::size_t>((width + 2 * margin) * kCellsPerPixel) + 1;
  const auto rows = static_cast<std::size_t>((height + 2 * margin) * kCellsPerPixel) + 1;
  occupied.assign((columns * rows + 63) / 64, 0);

  const PlotPoint centre = view.centre();
  const double sx = view.pixels_per_unit_x();
  const double sy = view.pixels_per_unit_y();
  out.clear();
  // From the last drawn to the first, so that what is kept is what lies on top.
  for (std::size_t i = series.x.size(); i-- > 0;) {
    const auto x = static_cast<float>(0.5 * width + (series.x[i] - centre.x) * sx);
    const auto y = static_cast<float>(0.5 * height - (series.y[i] - centre.y) * sy);
    if (!(x > -margin && x < width + margin && y > -margin && y < height + margin)) continue;
    const auto column = static_cast<std::size_t>((x + margin) * kCellsPerPixel);
    const auto row = static_cast<std::size_t>((y + margin) * kCellsPerPixel);
    const std::size_t cell = row * columns + column;
    const std::uint64_t bit = std::uint64_t{1} << (cell % 64);
    if ((occupied[cell / 64] & bit) != 0) continue;
    occupied[cell / 64] |= bit;
    out.push_back(y);
    out.push_back(x);
  }
  std::reverse(out.begin(), out.end());
}

PointLayer::PointLayer() : program_(shaders::points_vert, shaders::points_frag) {
  glBindVertexArray(vertices_.get());
  glBindBuffer(GL_ARRAY_BUFFER, centres_.get());
  glEnableVertexAttribArray(0);
  glVertexAttribPointer(0, 2, GL_FLOAT, GL_FALSE, 0, nullptr);
  glBindVertexArray(0);
}

void PointLayer::draw(const figures::Panel& panel, std::uint64_t panel_revision, const PlotView& view,
                      const PlotGrid& grid, const Theme& theme, const std::vector<std::string>& hidden,
                      float scale) {
  const int width = std::max(1, static_cast<int>(std::lround(view.width())));
  const int height = std::max(1, static_cast<int>(std::lround(view.height())));
  Drawn now{panel_revision, view.revision(), theme.light, hidden};
  if (!empty_ && now == drawn_ && width == target_.width() && height == target_.height()) return;
  drawn_ = std::move(now);
  empty_ = false;
  points_drawn_ = 0;

  target_.resize(width, height);
  glBindFramebuffer(GL_FRAMEBUFFER, target_.framebuffer());
  glViewport(0, 0, width, height);
  glDisable(GL_SCISSOR_TEST);
  glDisable(GL_DEPTH_TEST);
  clear_to(theme.plot);
  draw_grid(grid, theme.grid, width, height);
  glEnable(GL_BLEND);
  glBlendFunc(GL_ONE, GL_ONE_MINUS_SRC_ALPHA);
  glEnable(GL_PROGRAM_POINT_SIZE);
  glUseProgram(program_.get());
  glUniform2f(program_.uniform("viewport_px"), static_cast<float>(width), static_cast<float>(height));
  glBindVertexArray(vertices_.get());
  for (const figures::PointSeries& series : panel.points) {
    const bool is_sprite = series.marker == figures::Marker::kDisc || series.marker == figures::Marker::kRing;
    if (is_sprite && std::ranges::find(hidden, series.id) == hidden.end()) draw_series(series, view, scale);
  }
  glBindVertexArray(0);
  glUseProgram(0);
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
}

void PointLayer::draw_series(const figures::PointSeries& series, const PlotView& view, float scale) {
  const float diameter = series.size_px * scale;
  visible_centres(series, view, diameter, buffer_, occupied_);
  if (buffer_.empty()) return;
  const bool ring = series.marker == figures::Marker::kRing;
  const auto channel = [](std::uint8_t value) { return static_cast<float>(value) / 255; };
  glUniform4f(program_.uniform("colour"), channel(series.colour.r), channel(series.colour.g),
              channel(series.colour.b), ring ? kRingAlpha : kDiscAlpha);
  glUniform1f(program_.uniform("diameter_px"), diameter);
  glUniform1f(program_.uniform("stroke_px"), ring ? std::min(kStrokePx * scale, 0.32F * diameter) : 0);
  glBindBuffer(GL_ARRAY_BUFFER, centres_.get());
  glBufferData(GL_ARRAY_BUFFER, static_cast<GLsizeiptr>(buffer_.size() * sizeof(float)), buffer_.data(),
               GL_STREAM_DRAW);
  const auto n_points = static_cast<GLsizei>(buffer_.size() / 2);
  glDrawArrays(GL_POINTS, 0, n_points);
  points_drawn_ += n_points;
}

}  // namespace keyscope::window
