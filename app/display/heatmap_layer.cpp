#include "app/display/heatmap_layer.hpp"

#include <algorithm>
#include <cmath>

#include "app/figures/scales.hpp"
#include "shaders/shaders.hpp"

namespace keyscope::window {

namespace {

void clamp_texture() {
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAX_LEVEL, 0);
}

// The last cell may stand for less than a step: what lies beyond is no data.
float n_cells(double extent, double step, Eigen::Index n) {
  const auto whole = static_cast<double>(n);
  return static_cast<float>(extent > 0 ? std::min(extent / step, whole) : whole);
}

void set_colour(GLint uniform, ImU32 colour) {
  const ImVec4 c = ImGui::ColorConvertU32ToFloat4(colour);
  glUniform3f(uniform, c.x, c.y, c.z);
}

}  // namespace

HeatmapLayer::HeatmapLayer() : program_(shaders::heatmap_vert, shaders::heatmap_frag) {}

void HeatmapLayer::set(const figures::Heatmap& heatmap, figures::Reduction reduction) {
  pyramid_ = figures::HeatmapPyramid(heatmap.values, reduction);
  about_ = heatmap;
  about_.x_end = heatmap.x_last();
  about_.y_end = heatmap.y_last();
  about_.values.resize(0, 0);
  cells_.clear();
  upload_colours();
  for (std::size_t level = 0; level < pyramid_.levels().size(); ++level) cells_of({level, level});
  fresh_ = true;
}

void HeatmapLayer::set_range(float low, float high) {
  about_.low = low;
  about_.high = high;
  fresh_ = true;
}

GLuint HeatmapLayer::cells_of(figures::HeatmapLevel level) {
  std::unique_ptr<GlTexture>& texture = cells_[level];
  if (texture) return texture->get();
  texture = std::make_unique<GlTexture>();
  const RowMatrixF& cells = pyramid_.at(level);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  glBindTexture(GL_TEXTURE_2D, texture->get());
  glTexImage2D(GL_TEXTURE_2D, 0, GL_R32F, static_cast<GLsizei>(cells.cols()),
               static_cast<GLsizei>(cells.rows()), 0, GL_RED, GL_FLOAT, cells.data());
  clamp_texture();
  return texture->get();
}

void HeatmapLayer::upload_colours() {
  auto table = figures::colour_table(about_.colour_map);
  if (const auto n = about_.categories.size(); n > 0)
    for (std::size_t i = 0; i < table.size(); ++i)  // the entry of a category is that nearest to its place
      table[i] = figures::category_colour(about_, (i * (n - 1) + table.size() / 2) / (table.size() - 1));
  glBindTexture(GL_TEXTURE_2D, colours_.get());
  glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGB8, figures::kColourMapSize, 1, 0, GL_RGB, GL_UNSIGNED_BYTE,
               table.data());
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  clamp_texture();
}

void HeatmapLayer::draw(const PlotView& view, const Theme& theme) {
  const int width = std::max(1, static_cast<int>(std::lround(view.width())));
  const int height = std::max(1, static_cast<int>(std::lround(view.height())));
  const bool same = !fresh_ && view.revision() == view_revision_ && theme.light == light_ &&
                    width == target_.width() && height == target_.height();
  if (same) return;
  target_.resize(width, height);
  glBindFramebuffer(GL_FRAMEBUFFER, target_.framebuffer());
  draw_cells(view, theme);
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
  fresh_ = false;
  view_revision_ = view.revision();
  light_ = theme.light;
}

void HeatmapLayer::draw_cells(const PlotView& view, const Theme& theme) {
  glViewport(0, 0, target_.width(), target_.height());
  glDisable(GL_SCISSOR_TEST);
  glDisable(GL_BLEND);
  glDisable(GL_DEPTH_TEST);
  const ImVec4 background = ImGui::ColorConvertU32ToFloat4(theme.plot);
  glClearColor(background.x, background.y, background.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  if (pyramid_.levels().empty() || pyramid_.levels().front().size() == 0) return;
  const double x_cells = 1 / (view.pixels_per_unit_x() * about_.x_step),
               y_cells = 1 / (view.pixels_per_unit_y() * about_.y_step);  // of level 0, a pixel
  level_ = pyramid_.level_for(x_cells, y_cells);
  const GLuint cells = cells_of(level_);
  const RowMatrixF& whole = pyramid_.levels().front();
  glUseProgram(program_.get());
  glUniform1f(program_.uniform("height_px"), static_cast<float>(target_.height()));
  glUniform2f(program_.uniform("first_cell"),
              static_cast<float>((view.limits().x_low - about_.x_first) / about_.x_step),
              static_cast<float>((view.limits().y_low - about_.y_first) / about_.y_step));
  glUniform2f(program_.uniform("cells_per_px"), static_cast<float>(x_cells), static_cast<float>(y_cells));
  glUniform2f(program_.uniform("n_cells"),
              n_cells(about_.x_last() - about_.x_first, about_.x_step, whole.cols()),
              n_cells(about_.y_last() - about_.y_first, about_.y_step, whole.rows()));
  glUniform2i(program_.uniform("level"), static_cast<GLint>(level_.x), static_cast<GLint>(level_.y));
  glUniform2f(program_.uniform("range"), about_.low, about_.high);
  glUniform1i(program_.uniform("logarithmic"), about_.logarithmic ? 1 : 0);
  set_colour(program_.uniform("missing"), theme.missing);
  set_colour(program_.uniform("background"), theme.plot);
  glUniform1i(program_.uniform("cells"), 0);
  glUniform1i(program_.uniform("colours"), 1);
  glActiveTexture(GL_TEXTURE1);
  glBindTexture(GL_TEXTURE_2D, colours_.get());
  glActiveTexture(GL_TEXTURE0);
  glBindTexture(GL_TEXTURE_2D, cells);
  glBindVertexArray(vertices_.get());
  glDrawArrays(GL_TRIANGLES, 0, 3);
  glBindVertexArray(0);
  glUseProgram(0);
}

}  // namespace keyscope::window
