#include "app/panels/plot_mouse.hpp"

#include <cmath>

namespace keyscope::window {
namespace {

constexpr float kDragThresholdPx = 4;
constexpr float kTrailStepPx = 3;  // of an outline: what is nearer adds nothing
constexpr double kWheelFactor = 1.18;

Pixel to_pixel(ImVec2 at) { return {at.x, at.y}; }

float distance(Pixel a, Pixel b) { return std::hypot(a.x - b.x, a.y - b.y); }

}  // namespace

void PlotMouse::drag(const PanelContext& context, PlotView& view, const PlotAbilities& abilities,
                     Outcome& outcome) {
  const ImGuiIO& io = ImGui::GetIO();
  for (const int button : {ImGuiMouseButton_Left, ImGuiMouseButton_Middle}) {
    if (!ImGui::IsItemActive() || !ImGui::IsMouseDragging(button, context.px(kDragThresholdPx))) continue;
    if (!dragged_) turning_ = abilities.turns && button == ImGuiMouseButton_Left && !io.KeyShift;
    // By whole pixels, also where the mouse moves by fractions: most of the picture can then be kept.
    const Pixel moved{std::round(io.MousePos.x - io.MouseClickedPos[button].x),
                      std::round(io.MousePos.y - io.MouseClickedPos[button].y)};
    const Pixel before = dragged_.value_or(Pixel{});
    const Pixel step{moved.x - before.x, moved.y - before.y};
    dragged_ = moved;
    if (turning_)
      outcome.turned = step;
    else
      view.pan(step.x, step.y);
    return;
  }
}

void PlotMouse::draw_with_tool(const PanelContext& context, PlotView& view, const PlotAbilities& abilities,
                               Outcome& outcome) {
  const ImGuiIO& io = ImGui::GetIO();
  const Pixel mouse = to_pixel(io.MousePos);
  const bool drawing =
      ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Right, context.px(kDragThresholdPx));
  if (drawing && tool_ == Tool::kNone) {
    tool_ = io.KeyCtrl || !abilities.selects ? Tool::kZoom : io.KeyShift ? Tool::kOutline : Tool::kBox;
    trail_ = {to_pixel(io.MouseClickedPos[ImGuiMouseButton_Right])};
  }
  if (tool_ == Tool::kNone) {
    outcome.menu = ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right);
    return;
  }
  if (tool_ == Tool::kOutline && distance(mouse, trail_.back()) >= context.px(kTrailStepPx))
    trail_.push_back(mouse);
  if (io.MouseDown[ImGuiMouseButton_Right]) return;
  const Pixel from = trail_.front();
  if (tool_ == Tool::kZoom) view.zoom_to(from, mouse);
  if (tool_ == Tool::kBox) outcome.outline = {from, {mouse.x, from.y}, mouse, {from.x, mouse.y}};
  if (tool_ == Tool::kOutline) outcome.outline = trail_;
  tool_ = Tool::kNone;
}

PlotMouse::Outcome PlotMouse::handle(const PanelContext& context, PlotView& view,
                                     const PlotAbilities& abilities) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool hovered = ImGui::IsItemHovered();
  Outcome outcome;
  if (hovered && io.MouseWheel != 0)
    view.zoom_at(to_pixel(io.MousePos), std::pow(kWheelFactor, io.MouseWheel));
  outcome.fit = hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  drag(context, view, abilities, outcome);
  draw_with_tool(context, view, abilities, outcome);

  const bool held = io.MouseDown[ImGuiMouseButton_Left] || io.MouseDown[ImGuiMouseButton_Middle];
  if (hovered && !(dragged_ && held) && tool_ == Tool::kNone) {
    outcome.over = to_pixel(io.MousePos);
    outcome.clicked = ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged_;
  }
  if (!held) dragged_.reset();
  return outcome;
}

void PlotMouse::draw(const PanelContext& context) const {
  if (tool_ == Tool::kNone) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 from(trail_.front().x, trail_.front().y), mouse = ImGui::GetMousePos();
  if (tool_ != Tool::kOutline) {
    list.AddRectFilled(from, mouse, with_alpha(context.theme.accent, 0.15F));
    list.AddRect(from, mouse, context.theme.accent);
    return;
  }
  for (const Pixel& at : trail_) list.PathLineTo({at.x, at.y});
  list.PathLineTo(mouse);
  list.PathStroke(context.theme.accent, ImDrawFlags_Closed, context.px(1.5F));
}

}  // namespace keyscope::window
