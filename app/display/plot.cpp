#include "app/display/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <epoxy/gl.h>
#include <fmt/format.h>
#include <implot.h>

#include "app/figures/scales.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

using figures::Tick;

constexpr float kDragThresholdPx = 4;
constexpr float kTrailStepPx = 3;     // of an outline: what is nearer adds nothing
constexpr float kTickPx = 70;         // room for one
constexpr float kLabelGapPx = 6;      // between two labels
constexpr float kPlacePx = 40;        // of a matrix in another order than positions
constexpr float kRowOfTextPx = 15;    // that a token's text takes beside its row
constexpr float kMostNamePx = 150;    // of a category, whatever it says: the plot is what is looked at
constexpr double kMostZoom = 20'000;  // against the fitted view: float32 coordinates end about there
constexpr double kLeastZoom = 0.05;
constexpr double kSamePx = 0.01;

std::string name_of(const figures::Axis& axis) { return figures::name_with_units(axis.label, axis.units); }

// Numbers as everywhere else: with a minus sign.
int format_tick(double value, char* buffer, int size, void* /*user*/) {
  std::string text = fmt::format("{:g}", value);
  if (text.starts_with('-')) text.replace(0, 1, "−");
  const std::size_t n = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::copy_n(text.begin(), n, buffer);
  buffer[n] = '\0';
  return static_cast<int>(n);
}

void set_ticks(ImAxis axis, const std::vector<Tick>& ticks) {
  std::vector<double> values;
  std::vector<const char*> labels;
  for (const Tick& tick : ticks) {
    values.push_back(tick.value);
    labels.push_back(tick.label.c_str());
  }
  ImPlot::SetupAxisTicks(axis, values.data(), static_cast<int>(values.size()), labels.data());
}

// What of an axis can have ticks: a matrix has none beside its cells.
figures::Range range_of(double low, double high, double first, double last) {
  return {std::max(low, std::min(first, last)), std::min(high, std::max(first, last))};
}

// Whether labels along x would run together.
bool is_crowded(const DrawContext& context, const std::vector<Tick>& ticks, double per_unit) {
  const auto half = [&](const Tick& tick) { return 0.5F * text_size(context.fonts.small, tick.label).x; };
  for (std::size_t i = 1; i < ticks.size(); ++i)
    if ((ticks[i].value - ticks[i - 1].value) * per_unit <
        half(ticks[i - 1]) + half(ticks[i]) + context.px(kLabelGapPx))
      return true;
  return false;
}

// Those that reach beyond the plot, where nothing of them would be seen or half: their ticks stay.
void leave_out_cut_labels(const DrawContext& context, std::vector<Tick>& ticks, const figures::Extent& shown,
                          double per_unit) {
  const float margin = ImPlot::GetStyle().PlotPadding.x;
  for (Tick& tick : ticks) {
    const double half = 0.5 * text_size(context.fonts.small, tick.label).x - margin;
    if ((tick.value - shown.x_low) * per_unit < half || (shown.x_high - tick.value) * per_unit < half)
      tick.label.clear();
  }
}

}  // namespace

// Where ImPlot's own choice does not do: counted things, categories, tokens in another order.
void Plot::set_up_ticks(const DrawContext& context, const figures::Panel& panel, const PlotView& view) {
  const figures::Extent shown = view.limits();
  figures::Range x{shown.x_low, shown.x_high}, y{shown.y_low, shown.y_high};
  if (const auto& map = panel.heatmap) {
    x = range_of(x.low, x.high, map->x_first, map->x_last());
    y = range_of(y.low, y.high, map->y_first, map->y_last());
  }
  const auto n_along = [&](const figures::Range& range, double per_unit, float per_tick) {
    return std::max(2, static_cast<int>(range.width() * per_unit / context.px(per_tick)));
  };
  const auto set = [&](ImAxis axis, const figures::Axis& about, const figures::Range& range, double per_unit,
                       float most_px, double first) {
    const bool ordered = panel.order && (axis == ImAxis_Y1 || !panel.order->rows_only);
    const bool chosen = panel.heatmap || ordered || about.counted || !about.categories.empty();
    if (!chosen || !(range.high > range.low)) return;
    std::vector<Tick> ticks;
    const int n_most = n_along(range, per_unit, kTickPx);
    const auto numbers = [&](int n_wanted) {
      return figures::ticks_of(about, range.low, range.high, n_wanted,
                               panel.heatmap ? std::optional(first) : std::nullopt);
    };
    if (!ordered)
      ticks = numbers(n_most);
    else if (axis == ImAxis_Y1 && per_unit >= context.px(kRowOfTextPx))
      ticks = figures::named_places(*panel.order, range.low, range.high);
    else
      ticks = figures::place_ticks(*panel.order, range.low, range.high, n_along(range, per_unit, kPlacePx));
    if (!about.categories.empty())
      for (Tick& tick : ticks) tick.label = fit_text(context.fonts.small, tick.label, most_px);
    if (axis == ImAxis_X1 && !ordered && about.categories.empty()) {
      for (int n = n_most; n > 2 && is_crowded(context, ticks, per_unit); --n) ticks = numbers(n - 1);
      leave_out_cut_labels(context, ticks, shown, per_unit);
    }
    set_ticks(axis, ticks);
  };
  const double x_unit = view.pixels_per_unit_x(), y_unit = view.pixels_per_unit_y();
  set(ImAxis_X1, panel.x, x, x_unit, std::max(context.px(24), static_cast<float>(x_unit) - context.px(6)),
      panel.heatmap ? panel.heatmap->x_first : 0);
  set(ImAxis_Y1, panel.y, y, y_unit, context.px(kMostNamePx), panel.heatmap ? panel.heatmap->y_first : 0);
}

void Plot::set_up_axes(DrawContext& context, const figures::Panel& panel, const PlotView& view, bool names) {
  ImPlotAxisFlags flags =
      ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoSideSwitch | ImPlotAxisFlags_NoHighlight;
  if (space_) flags |= ImPlotAxisFlags_NoDecorations;
  if (panel.heatmap) flags |= ImPlotAxisFlags_NoGridLines;
  const std::string x = fit_text(context.fonts.small, name_of(panel.x), view.width());
  const std::string y = fit_text(context.fonts.small, name_of(panel.y), view.height());
  ImPlot::SetupAxis(ImAxis_X1, names && !x.empty() ? x.c_str() : nullptr, flags);
  ImPlot::SetupAxis(ImAxis_Y1, names && !y.empty() ? y.c_str() : nullptr,
                    flags | (panel.heatmap ? ImPlotAxisFlags_Invert : 0));
  for (const ImAxis axis : {ImAxis_X1, ImAxis_Y1}) {
    ImPlot::SetupAxisFormat(axis, format_tick);
    ImPlot::SetupAxisLinks(axis, &limits_[axis == ImAxis_X1 ? 0 : 2], &limits_[axis == ImAxis_X1 ? 1 : 3]);
  }
  const figures::Extent& all = view.extent();
  const double longest = std::max(all.x_high - all.x_low, all.y_high - all.y_low);
  if (longest > 0 && std::isfinite(longest) && panel.equal_aspect)
    for (const ImAxis axis : {ImAxis_X1, ImAxis_Y1})
      ImPlot::SetupAxisZoomConstraints(axis, longest / kMostZoom, longest / kLeastZoom);
  if (!space_) set_up_ticks(context, panel, view);
}

bool Plot::begin(DrawContext& context, const std::string& name, const Rect& rect, const figures::Panel& panel,
                 PlotView& view, bool names, bool selects) {
  space_ = panel.is_3d();
  selects_ = selects;
  view.set_downwards(panel.heatmap.has_value());
  const figures::Extent shown = view.limits();
  std::ranges::copy(std::array{shown.x_low, shown.x_high, shown.y_low, shown.y_high}, limits_);
  ImPlotInputMap& buttons = ImPlot::GetInputMap();
  buttons.PanMod = space_ ? ImGuiMod_Shift : ImGuiMod_None;
  buttons.SelectMod = selects ? ImGuiMod_Ctrl : ImGuiMod_None;
  buttons.OverrideMod = ImGuiMod_Super;
  ImGui::SetCursorScreenPos({std::round(rect.x), std::round(rect.y)});
  push_font(context.fonts.small);
  constexpr ImPlotFlags kBare = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMenus |
                                ImPlotFlags_NoMouseText | ImPlotFlags_NoFrame;
  if (!ImPlot::BeginPlot(("##" + name).c_str(), {std::round(rect.width), std::round(rect.height)},
                         kBare | (panel.equal_aspect ? ImPlotFlags_Equal : 0))) {
    ImGui::PopFont();
    return false;
  }
  set_up_axes(context, panel, view, names);
  ImPlot::SetupFinish();
  follow_mouse(context, view);
  context.widgets[name] = {view.left(), view.top(), view.width(), view.height()};
  return true;
}

// The view, as ImPlot has it now.
void Plot::follow_mouse(DrawContext& context, PlotView& view) {
  const ImVec2 at = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  // On whole pixels, as pictures are.
  const bool other_frame =
      view.set_frame(std::round(at.x), std::round(at.y), std::round(size.x), std::round(size.y));
  if (other_frame) context.wants_frames = true;
  if (other_frame && !view.moved()) return;  // fitted again
  const ImPlotRect now = ImPlot::GetPlotLimits();
  const figures::Extent limits{now.X.Min, now.X.Max, now.Y.Min, now.Y.Max}, before = view.limits();
  const double x = view.pixels_per_unit_x() *
                   std::max(std::abs(limits.x_low - before.x_low), std::abs(limits.x_high - before.x_high));
  const double y = view.pixels_per_unit_y() *
                   std::max(std::abs(limits.y_low - before.y_low), std::abs(limits.y_high - before.y_high));
  if (x > kSamePx || y > kSamePx) view.show(limits);
}

void Plot::draw_outline(DrawContext& context, PlotMouse& mouse) {
  const ImGuiIO& io = ImGui::GetIO();
  const Pixel at{io.MousePos.x, io.MousePos.y};
  const float threshold = context.px(kDragThresholdPx);
  if (tool_ == Tool::kNone) {
    const bool begins = selects_ && !io.KeyCtrl && ImPlot::IsPlotHovered() &&
                        ImGui::IsMouseDragging(ImGuiMouseButton_Right, threshold);
    if (!begins) return;
    tool_ = io.KeyShift ? Tool::kOutline : Tool::kBox;
    trail_ = {{io.MouseClickedPos[ImGuiMouseButton_Right].x, io.MouseClickedPos[ImGuiMouseButton_Right].y}};
  }
  const Pixel from = trail_.front();
  if (tool_ == Tool::kOutline &&
      std::hypot(at.x - trail_.back().x, at.y - trail_.back().y) >= context.px(kTrailStepPx))
    trail_.push_back(at);
  const std::vector<Pixel> outline =
      tool_ == Tool::kBox ? std::vector<Pixel>{from, {at.x, from.y}, at, {from.x, at.y}} : trail_;
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  if (tool_ == Tool::kBox)
    list.AddRectFilled({from.x, from.y}, io.MousePos, with_alpha(context.theme.accent, 0.15F));
  for (const Pixel& corner : outline) list.PathLineTo({corner.x, corner.y});
  list.PathStroke(context.theme.accent, ImDrawFlags_Closed, context.px(1.5F));
  ImPlot::PopPlotClipRect();
  if (io.MouseDown[ImGuiMouseButton_Right]) return;
  mouse.outline = outline;
  tool_ = Tool::kNone;
}

PlotMouse Plot::end(DrawContext& context, const PlotView& view) {
  const ImGuiIO& io = ImGui::GetIO();
  PlotMouse mouse;
  const bool had_tool = tool_ != Tool::kNone;
  draw_outline(context, mouse);
  const bool hovered = ImPlot::IsPlotHovered();
  const float threshold = context.px(kDragThresholdPx);
  const auto dragged = [&](int button) {
    return io.MouseDragMaxDistanceSqr[button] >= threshold * threshold;
  };
  const auto pressed_here = [&](int button) {
    return view.contains({io.MouseClickedPos[button].x, io.MouseClickedPos[button].y});
  };
  if (space_ && hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left) && !io.KeyShift) turning_ = true;
  if (!io.MouseDown[ImGuiMouseButton_Left]) turning_ = false;
  if (turning_ && dragged(ImGuiMouseButton_Left)) mouse.turned = {io.MouseDelta.x, io.MouseDelta.y};
  const bool drags = io.MouseDown[ImGuiMouseButton_Left] && dragged(ImGuiMouseButton_Left);
  if (hovered && !drags && tool_ == Tool::kNone && !ImPlot::IsPlotSelected()) {
    mouse.over = {io.MousePos.x, io.MousePos.y};
    mouse.clicked = ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged(ImGuiMouseButton_Left) &&
                    pressed_here(ImGuiMouseButton_Left);
  }
  mouse.fit = hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  mouse.menu = hovered && !had_tool && ImGui::IsMouseReleased(ImGuiMouseButton_Right) &&
               !dragged(ImGuiMouseButton_Right) && pressed_here(ImGuiMouseButton_Right);
  ImPlot::EndPlot();
  ImGui::PopFont();
  return mouse;
}

namespace {

void blend_premultiplied(const ImDrawList* /*list*/, const ImDrawCmd* /*command*/) {
  glBlendFunc(GL_ONE, GL_ONE_MINUS_SRC_ALPHA);
}

// Between two corners of the texture, from 0 to 1, y downwards as OpenGL's rows do not go.
void draw_texture(GLuint texture, const PlotView& view, Pixel low, Pixel high) {
  ImPlot::GetPlotDrawList()->AddImage(texture_id(texture), {view.left(), view.top()},
                                      {view.left() + view.width(), view.top() + view.height()},
                                      {low.x, 1 - low.y}, {high.x, 1 - high.y});
}

}  // namespace

void draw_picture(const HeatmapLayer& layer, const PlotView& view) {
  draw_texture(layer.texture(), view, {0, 0}, {1, 1});
}

void draw_picture(const PointLayer& layer, const PlotView& view) {
  const auto width = static_cast<float>(layer.width()), height = static_cast<float>(layer.height());
  const PixelRect shown = layer.shown();
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  list.AddCallback(blend_premultiplied, nullptr);
  draw_texture(layer.texture(), view,
               {static_cast<float>(shown.x_low) / width, static_cast<float>(shown.y_low) / height},
               {static_cast<float>(shown.x_high) / width, static_cast<float>(shown.y_high) / height});
  list.AddCallback(ImDrawCallback_ResetRenderState, nullptr);
}

figures::Extent plane_extent(const figures::Panel& panel) {
  const figures::PanelRanges ranges = figures::data_ranges(panel);
  const auto [y_low, y_high] = std::minmax(ranges.y.low, ranges.y.high);
  return {ranges.x.low, ranges.x.high, y_low, y_high};
}

namespace {

constexpr float kColourBarPx = 12, kBarGapPx = 6, kBarTickPx = 60;
constexpr float kCategoryPx = 22;  // at most
constexpr int kGradientSteps = 64;

// How much of a bar a category takes.
double category_share(const DrawContext& context, const figures::ColourScale& scale, float height) {
  if (scale.categories.empty()) return 0;
  return std::min(context.px(kCategoryPx) / height, 1 / static_cast<float>(scale.categories.size()));
}

std::vector<Tick> bar_ticks(const DrawContext& context, const figures::ColourScale& scale, float height) {
  std::vector<Tick> ticks;
  const int n_wanted = std::max(2, static_cast<int>(height / context.px(kBarTickPx)));
  for (const figures::ScaleTick& tick :
       figures::ticks_of(scale, n_wanted, category_share(context, scale, height)))
    ticks.push_back({tick.share, tick.label});
  return ticks;
}

// From the bottom of the plot upwards; a category's block from the top down.
void draw_colours(const DrawContext& context, const figures::ColourScale& scale, const Rect& bar) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const float left = bar.x, right = bar.right();
  if (!scale.categories.empty()) {
    const auto height = static_cast<float>(category_share(context, scale, bar.height)) * bar.height;
    for (std::size_t i = 0; i < scale.categories.size(); ++i) {
      const float y = bar.y + static_cast<float>(i) * height;
      list.AddRectFilled({left, y}, {right, y + height},
                         ink_colour(context.theme, figures::category_colour(scale, i)));
    }
    return;
  }
  const auto& table = figures::colour_table(scale.colour_map);
  for (int i = 0; i < kGradientSteps; ++i) {
    const ImU32 below = to_colour(table[i * 255 / kGradientSteps]);
    const ImU32 above = to_colour(table[(i + 1) * 255 / kGradientSteps]);
    const float y0 = bar.bottom() - bar.height * static_cast<float>(i) / kGradientSteps;
    const float y1 = bar.bottom() - bar.height * static_cast<float>(i + 1) / kGradientSteps;
    list.AddRectFilledMultiColor({left, y1}, {right, y0}, above, above, below, below);
  }
}

}  // namespace

float colour_bar_width(const DrawContext& context, const figures::ColourScale& scale, float height) {
  float widest = 0;
  for (const Tick& tick : bar_ticks(context, scale, height))
    widest = std::max(widest, text_size(context.fonts.small, tick.label).x);
  return context.px(kColourBarPx + 4 * kBarGapPx) + widest + context.fonts.small.size;
}

void draw_colour_bar(const DrawContext& context, const figures::ColourScale& scale, const Rect& bar) {
  const float gap = context.px(kBarGapPx), half = 0.5F * context.fonts.small.size;  // of a tick's label
  push_font(context.fonts.small);
  ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(0, half));
  ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(gap, 0));
  ImPlot::PushStyleVar(ImPlotStyleVar_PlotMinSize, ImVec2(1, 1));
  ImGui::SetCursorScreenPos({bar.x + gap, bar.y - half});
  ImGui::PushID(static_cast<int>(bar.x));
  ImGui::PushID(static_cast<int>(bar.y));
  if (!scale.categories.empty()) {  // they do not fill the bar
    ImPlot::PushStyleColor(ImPlotCol_PlotBg, ImU32{0});
    ImPlot::PushStyleColor(ImPlotCol_PlotBorder, ImU32{0});
  }
  const ImVec2 size(bar.width - gap, bar.height + 2 * half);
  if (ImPlot::BeginPlot("##colours", size,
                        ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs | ImPlotFlags_NoFrame)) {
    const std::string name =
        fit_text(context.fonts.small, figures::name_with_units(scale.long_name, scale.units), bar.height);
    ImPlot::SetupAxis(ImAxis_X1, nullptr, ImPlotAxisFlags_NoDecorations);
    ImPlot::SetupAxis(ImAxis_Y1, name.empty() ? nullptr : name.c_str(),
                      ImPlotAxisFlags_Opposite | ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoTickMarks);
    ImPlot::SetupAxesLimits(0, 1, 0, 1, ImPlotCond_Always);
    const std::vector<Tick> ticks = bar_ticks(context, scale, bar.height);
    set_ticks(ImAxis_Y1, ticks);
    ImPlot::SetupFinish();
    const ImVec2 at = ImPlot::GetPlotPos(), inner = ImPlot::GetPlotSize();
    draw_colours(context, scale, {at.x, at.y, inner.x, inner.y});
    ImPlot::EndPlot();
  }
  if (!scale.categories.empty()) ImPlot::PopStyleColor(2);
  ImGui::PopID();
  ImGui::PopID();
  ImPlot::PopStyleVar(3);
  ImGui::PopFont();
}

}  // namespace keyscope::window
