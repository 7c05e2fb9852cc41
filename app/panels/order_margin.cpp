#include "app/panels/order_margin.hpp"

#include <algorithm>

namespace keyscope::window {
namespace {

constexpr float kTreePx = 56, kMostTreeShare = 0.16F;  // of the plot's height
constexpr float kBarPx = 7, kGapPx = 3;
constexpr float kLeastTreePx = 16;
constexpr float kLeastBracketPx = 1.5F;  // narrower ones cannot be told apart

// The height that the margin ends at: of the highest bracket that lies in sight as a whole, so that the tree
// of few tokens is as legible as that of all; what is higher leads out of sight.
double highest_in_sight(const std::vector<figures::Bracket>& brackets, const PlotView& view) {
  double highest = 0;
  for (const figures::Bracket& bracket : brackets)
    if (bracket.left >= view.x_low() && bracket.right <= view.x_high())
      highest = std::max(highest, bracket.height);
  return highest;
}

}  // namespace

void OrderMargin::set(const figures::Panel& panel) {
  brackets_.clear();
  runs_.clear();
  if (!panel.order) return;
  brackets_ = figures::brackets_of(*panel.order);
  runs_ = figures::retention_runs(*panel.order);
}

float OrderMargin::height(const PanelContext& context, float plot_height) const {
  const float bars = runs_.empty() ? 0 : context.px(kBarPx + kGapPx);
  const float tree = std::min(context.px(kTreePx), kMostTreeShare * plot_height);
  const bool has_tree = !brackets_.empty() && tree >= context.px(kLeastTreePx);
  return bars + (has_tree ? tree + context.px(kGapPx) : 0);
}

void OrderMargin::draw_tree(const PanelContext& context, const PlotView& view, float top,
                            float bottom) const {
  const double highest = highest_in_sight(brackets_, view);
  if (!(highest > 0)) return;
  const auto x_of = [&](double place) { return view.to_pixel(place, 0).x; };
  const auto y_of = [&](double height) {
    return bottom - static_cast<float>(height / highest) * (bottom - top);
  };
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 ink = with_alpha(context.theme.dim, 0.8F);
  for (const figures::Bracket& bracket : brackets_) {
    const float left = x_of(bracket.left), right = x_of(bracket.right), y = y_of(bracket.height);
    if (right < view.left() || left > view.left() + view.width()) continue;
    if (right - left < kLeastBracketPx) continue;
    if (y >= top) list.AddLine({left, y}, {right, y}, ink);
    list.AddLine({left, y}, {left, y_of(bracket.left_height)}, ink);
    list.AddLine({right, y}, {right, y_of(bracket.right_height)}, ink);
  }
}

void OrderMargin::draw(const PanelContext& context, const PlotView& view, float height) const {
  if (height <= 0) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float gap = context.px(kGapPx), left = view.left(), right = view.left() + view.width();
  const float top = view.top() - height;
  float bottom = view.top() - gap;
  list.PushClipRect({left, top}, {right, view.top()}, true);
  for (const figures::RetentionRun& run : runs_) {
    const float from = view.to_pixel(static_cast<double>(run.first), 0).x,
                to = view.to_pixel(static_cast<double>(run.last), 0).x;
    const float bar = context.px(run.retained ? kBarPx : kBarPx / 2);
    const figures::Colour colour = run.retained ? figures::kBlue : figures::kOrange;
    if (to > left && from < right)
      list.AddRectFilled({from, bottom - bar}, {to, bottom}, ink_colour(context.theme, colour));
  }
  if (!runs_.empty()) bottom -= context.px(kBarPx) + gap;
  if (!brackets_.empty() && bottom - top >= context.px(kLeastTreePx)) draw_tree(context, view, top, bottom);
  list.PopClipRect();
}

}  // namespace keyscope::window
