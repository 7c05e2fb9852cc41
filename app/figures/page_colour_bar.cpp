#include "app/figures/page_colour_bar.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "app/figures/scales.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/scale_ticks.hpp"

namespace keyscope::figures {
namespace {

constexpr TextStyle kTickStyle{6.5};
constexpr double kTickLength = 2.5, kTickGap = 2, kLabelGap = 4;
constexpr double kCategoryHeight = 13;  // at most
constexpr double kTickSpace = 24;

double category_height(const ColourScale& scale, double height) {
  return std::min(kCategoryHeight, height / static_cast<double>(scale.categories.size()));
}

std::vector<ScaleTick> bar_ticks(const ColourScale& scale, double height) {
  return ticks_of(scale, std::max(2, static_cast<int>(height / kTickSpace)),
                  category_height(scale, height) / height);
}

std::string label_of(const ColourScale& scale) { return name_with_units(scale.long_name, scale.units); }

double widest_tick(cairo_t* cairo, const std::vector<ScaleTick>& ticks) {
  double widest = 0;
  for (const ScaleTick& tick : ticks)
    widest = std::max(widest, measure_text(cairo, tick.label, kTickStyle).width);
  return widest;
}

void draw_gradient(cairo_t* cairo, const ColourScale& scale, const Box& bar) {
  cairo_pattern_t* gradient = cairo_pattern_create_linear(0, bar.bottom(), 0, bar.y);
  const auto& table = colour_table(scale.colour_map);
  for (std::size_t i = 0; i < table.size(); i += 5)
    cairo_pattern_add_color_stop_rgb(gradient, static_cast<double>(i) / (kColourMapSize - 1),
                                     table[i].r / 255.0, table[i].g / 255.0, table[i].b / 255.0);
  cairo_set_source(cairo, gradient);
  cairo_rectangle(cairo, bar.x, bar.y, bar.width, bar.height);
  cairo_fill(cairo);
  cairo_pattern_destroy(gradient);
}

void draw_blocks(const Page& page, const ColourScale& scale, const Box& bar) {
  const double height = category_height(scale, bar.height);
  for (std::size_t i = 0; i < scale.categories.size(); ++i) {
    page.set_colour(page.theme.of_series(category_colour(i)));
    cairo_rectangle(page.cairo, bar.x, bar.y + static_cast<double>(i) * height, bar.width, height);
    cairo_fill(page.cairo);
  }
}

void draw_ticks(const Page& page, const ColourScale& scale, const Box& bar,
                const std::vector<ScaleTick>& ticks) {
  for (const ScaleTick& tick : ticks) {
    const double y = bar.bottom() - tick.share * bar.height;
    if (scale.categories.empty()) {
      page.set_colour(page.theme.frame);
      cairo_move_to(page.cairo, bar.right(), y);
      cairo_line_to(page.cairo, bar.right() + kTickLength, y);
      cairo_stroke(page.cairo);
    }
    page.set_colour(page.theme.ink);
    draw_text(page.cairo, tick.label, kTickStyle, bar.right() + kTickLength + kTickGap, y, {0, 0.5});
  }
}

}  // namespace

double colour_bar_extent(cairo_t* cairo, const ColourScale& scale, double height) {
  const double label = measure_text(cairo, label_of(scale), fit_label(cairo, label_of(scale), height)).height;
  return kColourBarGap + kColourBarWidth + kTickLength + kTickGap +
         widest_tick(cairo, bar_ticks(scale, height)) + kLabelGap + label;
}

void draw_colour_bar(const Page& page, const ColourScale& scale, const Box& bar) {
  cairo_t* cairo = page.cairo;
  Box inked = bar;
  if (scale.categories.empty()) {
    draw_gradient(cairo, scale, bar);
  } else {
    draw_blocks(page, scale, bar);
    inked.height = category_height(scale, bar.height) * static_cast<double>(scale.categories.size());
  }
  cairo_rectangle(cairo, inked.x, inked.y, inked.width, inked.height);
  page.set_colour(page.theme.frame);
  cairo_set_line_width(cairo, 0.5);
  cairo_stroke(cairo);

  const std::vector<ScaleTick> ticks = bar_ticks(scale, bar.height);
  draw_ticks(page, scale, bar, ticks);
  page.set_colour(page.theme.ink);
  const double x = bar.right() + kTickLength + kTickGap + widest_tick(cairo, ticks) + kLabelGap;
  draw_text(cairo, label_of(scale), fit_label(cairo, label_of(scale), bar.height), x, bar.y + bar.height / 2,
            {0.5, 0}, -std::acos(0.0));
}

}  // namespace keyscope::figures
