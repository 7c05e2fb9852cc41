#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <implot.h>

#include "app/display/plot_legend.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/scales.hpp"
#include "app/panels/figure_plots.hpp"
#include "app/session/selection.hpp"
#include "app/session/tokens.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr float kFigurePickRadiusPx = 9;
constexpr float kCurvePx = 1.6F, kMarkerPx = 6;
constexpr float kLeastHeightForLegend = 150, kLeastHeightForNames = 120;

}  // namespace

void PlotPanel::set(figures::Panel panel, bool of_tokens, bool keep_view) {
  panel_ = std::move(panel);
  of_tokens_ = of_tokens;
  selects_ = of_tokens && figures::has_tokens(panel_);
  selected_.reset();
  faded_.reset();
  order_.set(panel_);
  rebuild_index();
  if (panel_.heatmap) {
    if (!heatmap_) heatmap_ = std::make_unique<HeatmapLayer>();
    heatmap_->set(*panel_.heatmap, figures::parse_reduction(panel_.heatmap->reduction));
  }
  own_scale_ = panel_.heatmap ? std::optional<figures::ColourScale>(*panel_.heatmap) : panel_.scale;
  shares_range_ = false;
  extent_ = plane_extent(panel_);
  if (!keep_view) fit();
}

void PlotPanel::rebuild_index() {
  ++revision_;
  index_.build(seen(), legend_.hidden());
}

// A selection is the window's, made here or elsewhere.
void PlotPanel::update_selection(const PanelContext& context) {
  if (!selects_ || context.state().tokens == selected_) return;
  selected_ = context.state().tokens;
  faded_ = selected_ ? std::optional(figures::fade_unselected(panel_, *selected_)) : std::nullopt;
  rebuild_index();
}

void PlotPanel::select_inside(PanelContext& context, const std::vector<Pixel>& outline) const {
  std::vector<figures::OutlinePoint> corners;
  for (const Pixel& at : outline) {
    const PlotPoint point = view_.to_plane(at);
    corners.push_back({point.x, point.y});
  }
  context.session.select_tokens(figures::tokens_inside(panel_, legend_.hidden(), corners));
  context.wants_frames = true;
}

// The panel's ranges have their margins already.
void PlotPanel::fit() { view_.fit(extent_, panel_.equal_aspect, 0); }

void PlotPanel::use_extent(const figures::Extent& extent) {
  if (extent == extent_) return;
  extent_ = extent;
  if (!view_.moved()) fit();
}

void PlotPanel::use_range(const std::optional<figures::ColourScale>& shared) {
  shares_range_ = shared && own_scale_;
  if (!own_scale_) return;
  const float low = shares_range_ ? shared->low : own_scale_->low;
  const float high = shares_range_ ? shared->high : own_scale_->high;
  figures::ColourScale& scale = panel_.heatmap ? *panel_.heatmap : *panel_.scale;
  if (scale.low == low && scale.high == high) return;
  scale.low = low;
  scale.high = high;
  faded_.reset();  // its colours are those of before
  selected_.reset();
  ++revision_;
  if (heatmap_ && panel_.heatmap) heatmap_->set_range(low, high);
}

void PlotPanel::hide_as(const PlotPanel& other) {
  if (&other == this || legend_.hidden() == other.legend_.hidden()) return;
  legend_ = other.legend_;
  rebuild_index();
}

// Where the figure has them and the cells are large enough.
void PlotPanel::draw_cell_numbers(const PanelContext& context, const figures::Heatmap& map) const {
  if (map.decimals < 0) return;
  const Font& font = context.fonts.small;
  const double w = map.x_step * view_.pixels_per_unit_x(), h = map.y_step * view_.pixels_per_unit_y();
  const ImVec2 room = text_size(font, fmt::format("{:.{}f}", map.low < 0 ? -0.5 : 0.5, map.decimals));
  if (room.x + context.px(4) > w || room.y > h) return;
  for (Eigen::Index row = 0; row < map.values.rows(); ++row)
    for (Eigen::Index col = 0; col < map.values.cols(); ++col) {
      const float value = map.values(row, col);
      const Pixel at = view_.to_pixel(map.x_first + (static_cast<double>(col) + 0.5) * map.x_step,
                                      map.y_first + (static_cast<double>(row) + 0.5) * map.y_step);
      if (std::isnan(value) || !view_.contains(at)) continue;
      const std::string text = format_signed(value, map.decimals);
      const ImVec2 size = text_size(font, text);
      draw_text(*ImPlot::GetPlotDrawList(), font, {at.x - 0.5F * size.x, at.y - 0.5F * size.y},
                text_on(to_colour(figures::colour_of(map, value))), text);
    }
}

void PlotPanel::draw_content(PanelContext& context) {
  if (panel_.heatmap) {
    heatmap_->draw(view_, context.theme);
    draw_picture(*heatmap_, view_);
    draw_cell_numbers(context, *panel_.heatmap);
  } else {
    if (!points_) points_ = std::make_unique<PointLayer>();
    points_->draw(seen(), revision_, view_, context.theme, legend_.hidden(), context.scale);
    draw_picture(*points_, view_);
  }
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const ImU32 outline = context.theme.light ? IM_COL32_WHITE : IM_COL32(10, 13, 18, 255);
  for (const figures::PointSeries& series : seen().points) {
    if (PointLayer::draws(series) || legend_.hides(series.id)) continue;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      const Pixel at = view_.to_pixel(series.x[i], series.y[i]);
      if (view_.contains(at))
        draw_marker(list, series.marker, {at.x, at.y}, context.px(series.size_px),
                    ink_colour(context.theme, series.colour), series.x.size() == 1 ? outline : 0);
    }
  }
  for (const figures::BandSeries& band : panel_.bands)
    if (!legend_.hides(band.id)) draw_band(context.theme, band);
  for (const figures::LineSeries& series : panel_.lines)
    if (!legend_.hides(series.id)) draw_line(context, series, view_);
}

// A larger disc around the token's point; in a matrix of tokens, its column and row.
void PlotPanel::draw_token(PanelContext& context, std::int64_t token) const {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  if (panel_.heatmap) {
    const std::int64_t place = panel_.order ? panel_.order->place_of(token) : token;
    if (place < 0 || !panel_.y.categories.empty()) return;  // rows are no tokens
    const auto at = static_cast<double>(place) + 0.5;
    const Pixel pixel = view_.to_pixel(at, at);
    const ImU32 colour = with_alpha(context.theme.text, 0.55F);
    if (!rows_alone_) list.AddLine({pixel.x, view_.top()}, {pixel.x, view_.top() + view_.height()}, colour);
    list.AddLine({view_.left(), pixel.y}, {view_.left() + view_.width(), pixel.y}, colour);
    return;
  }
  for (const figures::PointSeries& series : panel_.points) {
    const auto found = std::ranges::find(series.token, static_cast<std::int32_t>(token));
    if (found == series.token.end() || legend_.hides(series.id)) continue;
    const auto i = found - series.token.begin();
    const Pixel at = view_.to_pixel(series.x[i], series.y[i]);
    draw_marker(list, series.marker, {at.x, at.y}, context.px(12), ink_colour(context.theme, series.colour),
                context.theme.text);
  }
}

// Cells are closed at their low end, as in `Heatmap`.
std::optional<PlotHit> PlotPanel::matrix_hit(const figures::Heatmap& map, PlotPoint at) const {
  const double x = at.x, y = at.y;
  const double column = std::floor((x - map.x_first) / map.x_step),
               row = std::floor((y - map.y_first) / map.y_step);
  if (column < 0 || row < 0 || column >= static_cast<double>(map.values.cols()) ||
      row >= static_cast<double>(map.values.rows()))
    return std::nullopt;
  const float value = map.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column));
  const auto stands_for = [&](double coordinate, bool ordered) -> std::int64_t {
    return ordered ? panel_.order->token_at(coordinate) : static_cast<std::int64_t>(std::floor(coordinate));
  };
  const bool ordered = panel_.order.has_value();
  const PlotHit::Cell cell{stands_for(y, ordered), stands_for(x, ordered && !panel_.order->rows_only), value};
  return PlotHit{std::nullopt, cell, {}, x, y};
}

std::optional<PlotHit> PlotPanel::hit(const PanelContext& context, Pixel at) const {
  const PlotPoint point = view_.to_plane(at);
  if (panel_.heatmap) return matrix_hit(*panel_.heatmap, point);
  PlotHit found{std::nullopt, std::nullopt, {}, point.x, point.y};
  if (const auto token = index_.nearest(view_, at, context.px(kFigurePickRadiusPx))) {
    found.token = *token;
    return found;
  }
  // What is no token: the nearest point of any series.
  double nearest = context.px(kFigurePickRadiusPx);
  const auto look = [&](const std::string& label, const std::vector<float>& xs,
                        const std::vector<float>& ys) {
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Pixel pixel = view_.to_pixel(xs[i], ys[i]);
      const double distance = std::hypot(pixel.x - at.x, pixel.y - at.y);
      if (!(distance < nearest)) continue;
      nearest = distance;
      found.series = label;
      found.x = xs[i];
      found.y = ys[i];
    }
  };
  for (const auto& series : panel_.points)
    if (series.token.empty() && !legend_.hides(series.id)) look(series.label, series.x, series.y);
  for (const auto& series : panel_.lines)
    if (!legend_.hides(series.id)) look(series.label, series.x, series.y);
  return found.series.empty() ? std::nullopt : std::optional(found);
}

PlotPanel::Outcome PlotPanel::draw_plot(PanelContext& context, const Rect& plot, const std::string& name,
                                        bool names) {
  if (!plot_.begin(context, name, plot, panel_, view_, names, selects_)) return {};
  ImPlot::PushPlotClipRect();
  draw_content(context);
  if (of_tokens_) {
    if (const auto held = context.state().locked) draw_token(context, *held);
    if (const auto token = context.state().hovered) draw_token(context, *token);
  }
  ImPlot::PopPlotClipRect();
  const PlotMouse mouse = plot_.end(context, view_);
  if (mouse.fit) fit();
  if (!mouse.outline.empty()) select_inside(context, mouse.outline);
  Outcome outcome{std::nullopt, mouse.clicked, mouse.menu};
  if (mouse.over) outcome.hit = hit(context, *mouse.over);
  return outcome;
}

PlotPanel::Outcome PlotPanel::draw(PanelContext& context, const Rect& rect, const std::string& name,
                                   bool with_bar) {
  if (rect.bottom() - ImGui::GetCursorScreenPos().y >= context.px(kLeastHeightForLegend) &&
      legend_.draw(context, panel_))
    rebuild_index();
  update_selection(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool names = rect.bottom() - at.y >= context.px(kLeastHeightForNames);
  Rect plot{at.x, at.y, rect.right() - at.x, rect.bottom() - at.y};
  const float above = order_.height(context, plot.height);
  plot.y += above;
  plot.height -= above;
  const float bar =
      panel_.heatmap && with_bar ? colour_bar_width(context, *panel_.heatmap, view_.height()) : 0;
  plot.width -= bar;
  if (plot.width < context.px(40) || plot.height < context.px(20)) return {};
  Outcome outcome = draw_plot(context, plot, name, names);
  order_.draw(context, view_, above);
  if (bar > 0) draw_colour_bar(context, *panel_.heatmap, {plot.right(), view_.top(), bar, view_.height()});
  return outcome;
}

namespace {

constexpr float kDashPx = 6, kDashGapPx = 4, kFarPx = 1e4F;
constexpr float kBandAlpha = 0.18F;

// ImPlot's lines are solid.
void draw_dashes(ImDrawList& list, Pixel from, Pixel to, float& walked, ImU32 colour, float width) {
  const float length = std::hypot(to.x - from.x, to.y - from.y);
  float done = 0;
  while (done < length) {
    const float phase = std::fmod(walked + done, kDashPx + kDashGapPx);
    const bool inked = phase < kDashPx;
    const float step = std::min(length - done, (inked ? kDashPx : kDashPx + kDashGapPx) - phase + 0.01F);
    const auto at = [&](float share) {
      return ImVec2(from.x + share * (to.x - from.x), from.y + share * (to.y - from.y));
    };
    if (inked) list.AddLine(at(done / length), at((done + step) / length), colour, width);
    done += step;
  }
  walked += length;
}

void draw_dashed_line(const PanelContext& context, const figures::LineSeries& series, const PlotView& view) {
  float walked = 0;
  // So far outside that the slope there cannot be seen.
  const auto near_sight = [&](Pixel at) {
    return Pixel{std::clamp(at.x, view.left() - kFarPx, view.left() + view.width() + kFarPx),
                 std::clamp(at.y, view.top() - kFarPx, view.top() + view.height() + kFarPx)};
  };
  for (std::size_t i = 1; i < series.x.size(); ++i) {
    const Pixel from = near_sight(view.to_pixel(series.x[i - 1], series.y[i - 1]));
    const Pixel to = near_sight(view.to_pixel(series.x[i], series.y[i]));
    if (std::isfinite(from.y) && std::isfinite(to.y))
      draw_dashes(*ImPlot::GetPlotDrawList(), from, to, walked, ink_colour(context.theme, series.colour),
                  context.px(kCurvePx));
  }
}

}  // namespace

void PlotPanel::draw_line(const PanelContext& context, const figures::LineSeries& series,
                          const PlotView& view) {
  const ImU32 colour = ink_colour(context.theme, series.colour);
  if (series.dashed)
    draw_dashed_line(context, series, view);
  else
    ImPlot::PlotLine(series.id.c_str(), series.x.data(), series.y.data(), static_cast<int>(series.x.size()),
                     {ImPlotProp_LineColor, colour, ImPlotProp_LineWeight, context.px(kCurvePx),
                      ImPlotProp_Flags, int{ImPlotItemFlags_NoFit}});
  if (!series.marker) return;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
    const Pixel at = view.to_pixel(series.x[i], series.y[i]);
    if (view.contains(at))
      draw_marker(*ImPlot::GetPlotDrawList(), *series.marker, {at.x, at.y}, context.px(kMarkerPx), colour, 0);
  }
}

void PlotPanel::draw_band(const Theme& theme, const figures::BandSeries& band) {
  ImPlot::PlotShaded(band.id.c_str(), band.x.data(), band.low.data(), band.high.data(),
                     static_cast<int>(band.x.size()),
                     {ImPlotProp_FillColor, ink_colour(theme, band.colour, kBandAlpha), ImPlotProp_Flags,
                      int{ImPlotItemFlags_NoFit}});
}

}  // namespace keyscope::window
