#include "app/panels/plot_mouse.hpp"

#include <cmath>

namespace keyscope::window {
namespace {

constexpr float kDragThresholdPx = 4;
constexpr double kWheelFactor = 1.18;

Pixel to_pixel(ImVec2 at) { return {at.x, at.y}; }

}  // namespace

PlotMouse::Outcome PlotMouse::handle(const PanelContext& context, PlotView& view) {
  const ImGuiIO& io = ImGui::GetIO();
  const Pixel mouse = to_pixel(io.MousePos);
  const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
  Outcome outcome;
  if (hovered && io.MouseWheel != 0) view.zoom_at(mouse, std::pow(kWheelFactor, io.MouseWheel));
  outcome.fit = hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);

  if (active && ImGui::IsMouseDragging(ImGuiMouseButton_Left, context.px(kDragThresholdPx))) {
    // By whole pixels, also where the mouse moves by fractions: most of the picture can then be kept.
    const Pixel moved{std::round(mouse.x - io.MouseClickedPos[0].x),
                      std::round(mouse.y - io.MouseClickedPos[0].y)};
    const Pixel before = dragged_.value_or(Pixel{});
    view.pan(moved.x - before.x, moved.y - before.y);
    dragged_ = moved;
  }
  const bool boxing = active && ImGui::IsMouseDragging(ImGuiMouseButton_Right, context.px(kDragThresholdPx));
  if (boxing && !box_from_) box_from_ = to_pixel(io.MouseClickedPos[ImGuiMouseButton_Right]);
  if (box_from_ && !io.MouseDown[ImGuiMouseButton_Right]) {
    view.zoom_to(*box_from_, mouse);
    box_from_.reset();
  } else {
    outcome.menu = hovered && ImGui::IsMouseReleased(ImGuiMouseButton_Right);
  }

  const bool dragging = dragged_ && io.MouseDown[ImGuiMouseButton_Left];
  if (hovered && !dragging && !box_from_) {
    outcome.over = mouse;
    outcome.clicked = ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged_;
  }
  if (!io.MouseDown[ImGuiMouseButton_Left]) dragged_.reset();
  return outcome;
}

void PlotMouse::draw(const PanelContext& context) const {
  if (!box_from_) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 from(box_from_->x, box_from_->y), mouse = ImGui::GetMousePos();
  list.AddRectFilled(from, mouse, with_alpha(context.theme.accent, 0.15F));
  list.AddRect(from, mouse, context.theme.accent);
}

}  // namespace keyscope::window
