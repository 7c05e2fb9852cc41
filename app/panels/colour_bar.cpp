#include "app/panels/colour_bar.hpp"

#include <algorithm>

#include "app/figures/scales.hpp"
#include "app/figures/scale_ticks.hpp"
#include "app/panels/markers.hpp"
#include "app/panels/name_lines.hpp"

namespace keyscope::window {
namespace {

constexpr float kBarPx = 12, kGapPx = 6, kTickPx = 60;
constexpr float kCategoryPx = 22;  // at most
constexpr int kSteps = 64;

float category_height(const PanelContext& context, const figures::ColourScale& scale, float height) {
  return std::min(context.px(kCategoryPx), height / static_cast<float>(scale.categories.size()));
}

std::vector<figures::ScaleTick> bar_ticks(const PanelContext& context, const figures::ColourScale& scale,
                                          float height) {
  return figures::ticks_of(scale, std::max(2, static_cast<int>(height / context.px(kTickPx))),
                           category_height(context, scale, height) / height);
}

// The name of what is shown, along the bar.
std::vector<std::string> lines_of_name(ImFont* font, const figures::ColourScale& scale, float height) {
  return name_lines(figures::name_with_units(scale.long_name, scale.units), height, measure_of(font));
}

float widest(ImFont* font, const std::vector<figures::ScaleTick>& ticks) {
  float width = 0;
  for (const auto& tick : ticks) width = std::max(width, text_size(font, tick.label).x);
  return width;
}

void draw_gradient(ImDrawList& list, const figures::ColourScale& scale, float left, float right,
                   const Rect& bar) {
  const auto& table = figures::colour_table(scale.colour_map);
  for (int i = 0; i < kSteps; ++i) {
    const ImU32 below = to_colour(table[static_cast<std::size_t>(i * 255 / kSteps)]);
    const ImU32 above = to_colour(table[static_cast<std::size_t>((i + 1) * 255 / kSteps)]);
    const float y0 = bar.bottom() - bar.h * static_cast<float>(i) / kSteps;
    const float y1 = bar.bottom() - bar.h * static_cast<float>(i + 1) / kSteps;
    list.AddRectFilledMultiColor({left, y1}, {right, y0}, above, above, below, below);
  }
}

// Returns how high the blocks are together.
float draw_blocks(const PanelContext& context, const figures::ColourScale& scale, float left, float right,
                  const Rect& bar) {
  const float height = category_height(context, scale, bar.h);
  for (std::size_t i = 0; i < scale.categories.size(); ++i) {
    const float y = bar.y + static_cast<float>(i) * height;
    ImGui::GetWindowDrawList()->AddRectFilled({left, y}, {right, y + height},
                                              ink_colour(context.theme, figures::category_colour(i)));
  }
  return height * static_cast<float>(scale.categories.size());
}

}  // namespace

float colour_bar_width(const PanelContext& context, const figures::ColourScale& scale, float height) {
  ImFont* font = context.fonts.small;
  return context.px(kBarPx + 3 * kGapPx) + widest(font, bar_ticks(context, scale, height)) +
         static_cast<float>(lines_of_name(font, scale, height).size()) * text_size(font, "0").y;
}

void draw_colour_bar(const PanelContext& context, const figures::ColourScale& scale, const Rect& bar) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImFont* font = context.fonts.small;
  const float gap = context.px(kGapPx), left = bar.x + gap, right = left + context.px(kBarPx);
  float inked = bar.h;
  if (scale.categories.empty())
    draw_gradient(list, scale, left, right, bar);
  else
    inked = draw_blocks(context, scale, left, right, bar);
  list.AddRect({left, bar.y}, {right, bar.y + inked}, context.theme.border);
  for (const auto& tick : bar_ticks(context, scale, bar.h)) {
    const float y = bar.bottom() - static_cast<float>(tick.share) * bar.h;
    if (scale.categories.empty()) list.AddLine({right - context.px(3), y}, {right, y}, context.theme.border);
    // Those at the ends stay beside the bar.
    const float text_y = std::clamp(y - 0.5F * font->FontSize, bar.y, bar.bottom() - font->FontSize);
    draw_text(list, font, {right + gap, text_y}, context.theme.dim, tick.label);
  }
  const auto name = lines_of_name(font, scale, bar.h);
  const float first = bar.right() - static_cast<float>(name.size()) * font->FontSize;
  draw_vertical_lines(list, font, {first, bar.y + 0.5F * bar.h}, context.theme.text, name);
}

}  // namespace keyscope::window
