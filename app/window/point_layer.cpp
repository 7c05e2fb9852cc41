#include "app/window/point_layer.hpp"

#include <algorithm>
#include <cmath>

#include "app/window/visible_centres.hpp"
#include "shaders/shaders.hpp"

namespace keyscope::window {
namespace {

constexpr float kStrokePx = 1.6F;  // of rings, at scale 1
constexpr float kDiscAlpha = 0.95F;
constexpr float kRingAlpha = 0.85F;  // what is retained comes first

// OpenGL's rows go upwards.
void scissor(const PixelRect& part, int height) {
  glScissor(part.x_low, height - part.y_high, part.x_high - part.x_low, part.y_high - part.y_low);
}

void clear_to(ImU32 colour) {
  const ImVec4 c = ImGui::ColorConvertU32ToFloat4(colour);
  glClearColor(c.x, c.y, c.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
}

// Lines one pixel wide, as clears of a column or row: they lie under the points at no cost.
void draw_grid(const PlotGrid& grid, ImU32 colour, const PixelRect& part, int height) {
  for (const int x : grid.x_px) {
    if (x < part.x_low || x >= part.x_high) continue;
    scissor({x, part.y_low, x + 1, part.y_high}, height);
    clear_to(colour);
  }
  for (const int y : grid.y_px) {
    if (y < part.y_low || y >= part.y_high) continue;
    scissor({part.x_low, y, part.x_high, y + 1}, height);
    clear_to(colour);
  }
}

bool is_sprite(const figures::PointSeries& series) {
  return series.marker == figures::Marker::kDisc || series.marker == figures::Marker::kRing;
}

}  // namespace

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
  Content content{panel_revision, theme.light, hidden, scale};
  const bool same = !empty_ && content == content_ && width == shown().width() && height == shown().height();
  const auto shift = same ? whole_pixel_shift(whole_view_, view) : std::nullopt;
  if (shift && *shift == shift_ && grid == grid_) return;
  content_ = std::move(content);
  if (shift && scroll(*shift, panel, view, grid, theme)) return;

  shown().resize(width, height);
  points_drawn_ = 0;
  draw_part({0, 0, width, height}, panel, view, grid, theme);
  empty_ = false;
  whole_view_ = view;
  shift_ = {};
  grid_ = grid;
}

// Moves what is there and draws what comes into sight; false where nothing that is there can be used.
bool PointLayer::scroll(PixelShift shift, const figures::Panel& panel, const PlotView& view,
                        const PlotGrid& grid, const Theme& theme) {
  const int width = shown().width(), height = shown().height();
  const PixelShift step{shift.x - shift_.x, shift.y - shift_.y};
  if (std::abs(step.x) >= width || std::abs(step.y) >= height ||
      !lines_follow(grid_, grid, width, height, step))
    return false;
  RenderTarget& next = targets_[1 - shown_];
  next.resize(width, height);
  glBindFramebuffer(GL_READ_FRAMEBUFFER, shown().framebuffer());
  glBindFramebuffer(GL_DRAW_FRAMEBUFFER, next.framebuffer());
  glDisable(GL_SCISSOR_TEST);
  const int left = std::max(0, step.x), right = std::min(width, width + step.x);
  const int bottom = std::max(0, -step.y), top = std::min(height, height - step.y);  // upwards, as in OpenGL
  glBlitFramebuffer(left - step.x, bottom + step.y, right - step.x, top + step.y, left, bottom, right, top,
                    GL_COLOR_BUFFER_BIT, GL_NEAREST);
  shown_ = 1 - shown_;
  points_drawn_ = 0;
  for (const PixelRect& part : exposed_parts(width, height, step)) draw_part(part, panel, view, grid, theme);
  shift_ = shift;
  grid_ = grid;
  return true;
}

void PointLayer::draw_part(const PixelRect& part, const figures::Panel& panel, const PlotView& view,
                           const PlotGrid& grid, const Theme& theme) {
  const int width = shown().width(), height = shown().height();
  glBindFramebuffer(GL_FRAMEBUFFER, shown().framebuffer());
  glEnable(GL_SCISSOR_TEST);
  scissor(part, height);
  clear_to(theme.plot);
  draw_grid(grid, theme.grid, part, height);
  scissor(part, height);
  glDisable(GL_DEPTH_TEST);
  glEnable(GL_BLEND);
  glBlendFunc(GL_ONE, GL_ONE_MINUS_SRC_ALPHA);
  glEnable(GL_PROGRAM_POINT_SIZE);
  glUseProgram(program_.get());
  glBindVertexArray(vertices_.get());
  for (const figures::PointSeries& series : panel.points) {
    if (!is_sprite(series) || std::ranges::find(content_.hidden, series.id) != content_.hidden.end())
      continue;
    // OpenGL drops sprites whose centre lies outside the viewport, so it reaches beyond the picture.
    const int beyond = static_cast<int>(std::ceil(series.size_px * content_.scale)) + 2;
    glViewport(-beyond, -beyond, width + 2 * beyond, height + 2 * beyond);
    glUniform2f(program_.uniform("viewport_px"), static_cast<float>(width + 2 * beyond),
                static_cast<float>(height + 2 * beyond));
    glUniform1f(program_.uniform("beyond_px"), static_cast<float>(beyond));
    draw_series(series, part, view, theme);
  }
  glBindVertexArray(0);
  glUseProgram(0);
  glDisable(GL_SCISSOR_TEST);
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
}

void PointLayer::draw_series(const figures::PointSeries& series, const PixelRect& part, const PlotView& view,
                             const Theme& theme) {
  const float diameter = series.size_px * content_.scale;
  visible_centres(series, view, part, diameter, buffer_, occupied_);
  if (buffer_.empty()) return;
  const bool ring = series.marker == figures::Marker::kRing;
  const ImVec4 ink = ImGui::ColorConvertU32ToFloat4(ink_colour(theme, series.colour));
  glUniform4f(program_.uniform("colour"), ink.x, ink.y, ink.z, ring ? kRingAlpha : kDiscAlpha);
  glUniform1f(program_.uniform("diameter_px"), diameter);
  glUniform1f(program_.uniform("stroke_px"),
              ring ? std::min(kStrokePx * content_.scale, 0.32F * diameter) : 0);
  glBindBuffer(GL_ARRAY_BUFFER, centres_.get());
  glBufferData(GL_ARRAY_BUFFER, static_cast<GLsizeiptr>(buffer_.size() * sizeof(float)), buffer_.data(),
               GL_STREAM_DRAW);
  const auto n_points = static_cast<GLsizei>(buffer_.size() / 2);
  glDrawArrays(GL_POINTS, 0, n_points);
  points_drawn_ += n_points;
}

}  // namespace keyscope::window
