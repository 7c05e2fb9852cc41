#include "app/panels/space_frame.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace keyscope::window {
namespace {

constexpr float kLabelGapPx = 12;
constexpr float kEdgePx = 3;

struct Corner {
  Pixel at;
  double depth = 0;
};

// By three bits: high on the first, second and third axis.
std::array<Corner, 8> corners_of(const session::SpaceBox& box, const figures::Orbit& orbit,
                                 const PlotView& view) {
  std::array<Corner, 8> corners;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const auto end = [&](std::size_t axis) { return (i >> axis & 1U) != 0 ? box.high[axis] : box.low[axis]; };
    const figures::Turned turned = box.turned(orbit, end(0), end(1), end(2));
    corners[i] = {view.to_pixel(turned.x, turned.y), turned.depth};
  }
  return corners;
}

// Beside the middle of an edge, on the side away from the middle of the box, and inside the plot.
void label_edge(const PanelContext& context, const PlotView& view, const Corner& a, const Corner& b,
                const std::string& label) {
  const Pixel middle = view.to_pixel(0, 0);
  const float x = 0.5F * (a.at.x + b.at.x), y = 0.5F * (a.at.y + b.at.y);
  const float away_x = x - middle.x, away_y = y - middle.y;
  const float length = std::max(1.0F, std::hypot(away_x, away_y));
  const ImVec2 size = text_size(context.fonts.small, label);
  const float gap = context.px(kLabelGapPx);
  const float centre_x = x + away_x / length * (gap + 0.5F * size.x * std::abs(away_x) / length);
  const float centre_y = y + away_y / length * gap;
  const auto within = [](float at, float low, float room) {
    return std::clamp(at, low, low + std::max(0.0F, room));
  };
  const float edge = context.px(kEdgePx);
  const ImVec2 at(within(centre_x - 0.5F * size.x, view.left() + edge, view.width() - size.x - 2 * edge),
                  within(centre_y - 0.5F * size.y, view.top() + edge, view.height() - size.y - 2 * edge));
  draw_text(*ImGui::GetWindowDrawList(), context.fonts.small, {std::floor(at.x), std::floor(at.y)},
            context.theme.text, label);
}

}  // namespace

void draw_space_frame(const PanelContext& context, const figures::Panel& panel, const session::SpaceBox& box,
                      const figures::Orbit& orbit, const PlotView& view) {
  const auto corners = corners_of(box, orbit, view);
  const auto nearest =
      static_cast<std::size_t>(std::ranges::min_element(corners, {}, &Corner::depth) - corners.begin());
  const Pixel middle = view.to_pixel(0, 0);
  const std::array<const std::string*, 3> labels{&panel.x.label, &panel.y.label, &panel.z.label};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::size_t outermost = 0;
    float farthest = -1;
    for (std::size_t from = 0; from < corners.size(); ++from) {
      const std::size_t to = from | std::size_t{1} << axis;
      if (from == to || from == nearest || to == nearest) continue;
      const Corner &a = corners[from], &b = corners[to];
      ImGui::GetWindowDrawList()->AddLine({a.at.x, a.at.y}, {b.at.x, b.at.y},
                                          with_alpha(context.theme.dim, 0.45F));
      const float away = std::hypot(0.5F * (a.at.x + b.at.x) - middle.x, 0.5F * (a.at.y + b.at.y) - middle.y);
      if (away > farthest) farthest = away, outermost = from;
    }
    label_edge(context, view, corners[outermost], corners[outermost | std::size_t{1} << axis], *labels[axis]);
  }
}

}  // namespace keyscope::window
