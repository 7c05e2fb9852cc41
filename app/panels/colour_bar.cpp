#include "app/panels/colour_bar.hpp"

#include <algorithm>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/colour_map.hpp"
#include "app/panels/markers.hpp"

namespace keyscope::window {
namespace {

constexpr float kBarPx = 12, kGapPx = 6, kTickPx = 60;
constexpr int kSteps = 64;

std::vector<figures::Tick> bar_ticks(const PanelContext& context, const figures::Heatmap& heatmap,
                                     float height) {
  const int wanted = std::max(2, static_cast<int>(height / context.px(kTickPx)));
  return heatmap.logarithmic ? figures::logarithmic_ticks(heatmap.low, heatmap.high, wanted)
                             : figures::linear_ticks(heatmap.low, heatmap.high, wanted);
}

float widest(ImFont* font, const std::vector<figures::Tick>& ticks) {
  float width = 0;
  for (const auto& tick : ticks) width = std::max(width, text_size(font, tick.label).x);
  return width;
}

}  // namespace

float colour_bar_width(const PanelContext& context, const figures::Heatmap& heatmap, float height) {
  ImFont* font = context.fonts.small;
  return context.px(kBarPx + 3 * kGapPx) + widest(font, bar_ticks(context, heatmap, height)) +
         text_size(font, "0").y;
}

void draw_colour_bar(const PanelContext& context, const figures::Heatmap& heatmap, const Rect& bar) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImFont* font = context.fonts.small;
  const float gap = context.px(kGapPx), left = bar.x + gap, right = left + context.px(kBarPx);
  const auto& table = figures::colour_table(heatmap.colour_map);
  for (int i = 0; i < kSteps; ++i) {
    const ImU32 below = to_colour(table[static_cast<std::size_t>(i * 255 / kSteps)]);
    const ImU32 above = to_colour(table[static_cast<std::size_t>((i + 1) * 255 / kSteps)]);
    const float y0 = bar.bottom() - bar.h * static_cast<float>(i) / kSteps;
    const float y1 = bar.bottom() - bar.h * static_cast<float>(i + 1) / kSteps;
    list.AddRectFilledMultiColor({left, y1}, {right, y0}, above, above, below, below);
  }
  list.AddRect({left, bar.y}, {right, bar.bottom()}, context.theme.border);
  const auto ticks = bar_ticks(context, heatmap, bar.h);
  for (const auto& tick : ticks) {
    const float share = figures::scale_position(heatmap, static_cast<float>(tick.value));
    const float y = bar.bottom() - share * bar.h;
    list.AddLine({right - context.px(3), y}, {right, y}, context.theme.border);
    // Those at the ends stay beside the bar.
    const float text_y = std::clamp(y - 0.5F * font->FontSize, bar.y, bar.bottom() - font->FontSize);
    draw_text(list, font, {right + gap, text_y}, context.theme.dim, tick.label);
  }
  const std::string name =
      heatmap.units.empty() ? heatmap.long_name : heatmap.long_name + " [" + heatmap.units + "]";
  draw_vertical_text(list, font, {bar.right() - 0.5F * font->FontSize, bar.y + 0.5F * bar.h},
                     context.theme.text, fit_text(font, name, bar.h));
}

}  // namespace keyscope::window
