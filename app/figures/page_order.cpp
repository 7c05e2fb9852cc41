#include "app/figures/page_order.hpp"

#include <algorithm>
#include <vector>

#include "app/figures/page_axes.hpp"

namespace keyscope::figures {
namespace {

constexpr double kTreeShare = 0.14, kMostTreeHeight = 48;  // of the plot's width; points
constexpr double kBarHeight = 5, kGap = 2;

double tree_height(const Panel& panel, double plot_width) {
  return panel.order->merges.empty() ? 0 : std::min(kMostTreeHeight, kTreeShare * plot_width);
}

void draw_bars(const Page& page, const TokenOrder& order, const PlotScale& scale, double bottom) {
  for (const RetentionRun& run : retention_runs(order)) {
    const double x = scale.page_x(static_cast<double>(run.first)),
                 width = scale.page_x(static_cast<double>(run.last)) - x,
                 height = run.retained ? kBarHeight : kBarHeight / 2;
    page.set_colour(page.theme.of_series(run.retained ? kBlue : kOrange));
    cairo_rectangle(page.cairo, x, bottom - height, width, height);
    cairo_fill(page.cairo);
  }
}

// From the highest bracket down, so wide as the page can tell its ends apart.
void draw_tree(const Page& page, const TokenOrder& order, const PlotScale& scale, const Box& box) {
  const std::vector<Bracket> brackets = brackets_of(order);
  if (brackets.empty() || !(brackets.back().height > 0)) return;
  const auto y = [&](double height) { return box.bottom() - height / brackets.back().height * box.height; };
  page.set_colour(page.theme.muted);
  cairo_set_line_width(page.cairo, std::clamp(box.width / static_cast<double>(order.size()) / 3, 0.15, 0.5));
  for (const Bracket& bracket : brackets) {
    const double left = scale.page_x(bracket.left), right = scale.page_x(bracket.right);
    cairo_move_to(page.cairo, left, y(bracket.left_height));
    cairo_line_to(page.cairo, left, y(bracket.height));
    cairo_line_to(page.cairo, right, y(bracket.height));
    cairo_line_to(page.cairo, right, y(bracket.right_height));
  }
  cairo_stroke(page.cairo);
}

}  // namespace

double order_height(const Panel& panel, double plot_width) {
  if (!panel.order || panel.order->token.empty()) return 0;
  const double bars = panel.order->retained.empty() ? 0 : kBarHeight + kGap;
  const double tree = tree_height(panel, plot_width);
  return tree + bars + (tree > 0 ? kGap : 0);
}

void draw_order(const Page& page, const Panel& panel, const PanelLayout& place) {
  if (order_height(panel, place.plot.width) == 0) return;
  const PlotScale scale{place.ranges.x, place.ranges.y, place.plot};
  double bottom = place.plot.y - kGap;
  if (!panel.order->retained.empty()) {
    draw_bars(page, *panel.order, scale, bottom);
    bottom -= kBarHeight + kGap;
  }
  const double height = tree_height(panel, place.plot.width);
  draw_tree(page, *panel.order, scale, {place.plot.x, bottom - height, place.plot.width, height});
}

}  // namespace keyscope::figures
