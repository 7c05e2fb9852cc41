#include "app/display/plot_legend.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "app/display/layout.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::window {

bool PlotLegend::hides(const std::string& id) const {
  return std::ranges::find(hidden_, id) != hidden_.end();
}

// What is retained comes first, then what was evicted, in the order of reading, not of drawing; a series
// without a label has none.
std::vector<PlotLegend::Entry> PlotLegend::entries_of(const figures::Panel& panel) {
  std::vector<Entry> entries;
  for (const auto& series : panel.points)
    if (!series.label.empty())  // what has many colours is known by its shape alone
      entries.push_back({series.label, series.id, series.value.empty() ? series.colour : figures::kCharcoal,
                         &series, nullptr});
  const auto rank = [](const Entry& entry) {
    return entry.id == "retained" ? 0 : entry.id == "evicted" ? 1 : 2;
  };
  std::ranges::stable_sort(entries, {}, rank);
  for (const auto& series : panel.lines)
    if (!series.label.empty()) entries.push_back({series.label, series.id, series.colour, nullptr, &series});
  return entries;
}

// One clickable entry; on the same line as the one before it where it fits.
bool PlotLegend::draw_entry(DrawContext& context, const Entry& entry, float right) const {
  const float sign = context.px(entry.line != nullptr ? 18 : 10);
  const ImVec2 text = text_size(context.fonts.small, entry.label);
  const ImVec2 size(sign + context.px(6) + text.x, std::max(text.y, context.px(10)) + context.px(4));
  if (ImGui::GetItemRectMax().x + context.px(16) + size.x < right) ImGui::SameLine(0, context.px(16));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool clicked = ImGui::InvisibleButton(entry.id.c_str(), size);
  const bool off = hides(entry.id), hovered = ImGui::IsItemHovered();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 centre(at.x + 0.5F * sign, at.y + 0.5F * size.y);
  const ImU32 ink = ink_colour(context.theme, entry.colour, off ? 0.35F : 1);
  if (entry.line != nullptr) list.AddLine({at.x, centre.y}, {at.x + sign, centre.y}, ink, context.px(2));
  if (const auto marker = entry.points != nullptr ? std::optional(entry.points->marker) : entry.line->marker)
    draw_marker(list, *marker, centre, context.px(10), ink, 0);
  const ImU32 colour = off ? with_alpha(context.theme.dim, 0.6F) : context.theme.text;
  const ImVec2 text_at(at.x + sign + context.px(6), at.y + 0.5F * (size.y - text.y));
  draw_text(list, context.fonts.small, text_at, colour, entry.label);
  if (hovered || off) {
    const float y = off ? text_at.y + 0.55F * text.y : text_at.y + text.y;
    list.AddLine({text_at.x, y}, {text_at.x + text.x, y}, context.theme.dim);
  }
  if (hovered) ImGui::SetTooltip(off ? "Click to show" : "Click to hide");
  context.widgets["legend_" + entry.id] = {at.x, at.y, size.x, size.y};
  return clicked;
}

bool PlotLegend::draw(DrawContext& context, const figures::Panel& panel) {
  if (!panel.legend) return false;
  ImGui::Dummy({0, 0});
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - ImGui::GetStyle().ItemSpacing.y);
  bool changed = false, first = true;
  for (const Entry& entry : entries_of(panel)) {
    const bool clicked = draw_entry(context, entry, first ? 0 : right);
    first = false;
    if (!clicked) continue;
    if (hides(entry.id))
      std::erase(hidden_, entry.id);
    else
      hidden_.push_back(entry.id);
    changed = true;
  }
  if (changed) context.wants_frames = true;
  return changed;
}

using figures::Marker;

namespace {

constexpr float kPi = std::numbers::pi_v<float>;

// A regular polygon with its first corner at angle `start`, clockwise from the right.
void draw_polygon(ImDrawList& list, ImVec2 at, float radius, int n_corners, float start, bool filled,
                  float edge, ImU32 fill, ImU32 outline) {
  std::array<ImVec2, 4> corners;
  for (int i = 0; i < n_corners; ++i) {
    const float angle = start + 2 * kPi * static_cast<float>(i) / static_cast<float>(n_corners);
    corners[i] = {at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)};
  }
  if (filled)
    list.AddConvexPolyFilled(corners.data(), n_corners, fill);
  else
    list.AddPolyline(corners.data(), n_corners, fill, ImDrawFlags_Closed, edge);
  if ((outline & IM_COL32_A_MASK) != 0)
    list.AddPolyline(corners.data(), n_corners, outline, ImDrawFlags_Closed, edge);
}

}  // namespace

void draw_marker(ImDrawList& list, Marker marker, ImVec2 at, float diameter, ImU32 fill, ImU32 outline) {
  const float r = 0.5F * diameter;
  const bool outlined = (outline & IM_COL32_A_MASK) != 0;
  const float edge = std::max(1.5F, 0.12F * diameter);
  switch (marker) {
    case Marker::kDisc:
      if (outlined) list.AddCircleFilled(at, r + edge, outline);
      list.AddCircleFilled(at, r, fill);
      break;
    case Marker::kRing:
      if (outlined) list.AddCircle(at, r - 0.5F * edge, outline, 0, 2.6F * edge);
      list.AddCircle(at, r - 0.5F * edge, fill, 0, edge);
      break;
    case Marker::kCircle:
      list.AddCircle(at, r, fill, 0, std::max(1.0F, 0.08F * diameter));
      break;
    case Marker::kDiamond:
    case Marker::kOpenDiamond:
      return draw_polygon(list, at, 1.2F * r, 4, -0.5F * kPi, marker == Marker::kDiamond, edge, fill,
                          outline);
    case Marker::kTriangle:
      return draw_polygon(list, at, 1.25F * r, 3, -0.5F * kPi, true, edge, fill, outline);
    case Marker::kDownTriangle:
    case Marker::kOpenDownTriangle:
      return draw_polygon(list, at, 1.25F * r, 3, 0.5F * kPi, marker == Marker::kDownTriangle, edge, fill,
                          outline);
    case Marker::kSquare:
    case Marker::kOpenSquare:
      return draw_polygon(list, at, 1.25F * r, 4, 0.25F * kPi, marker == Marker::kSquare, edge, fill,
                          outline);
    case Marker::kStar:  // two triangles, as both are convex
      draw_polygon(list, at, 1.25F * r, 3, -0.5F * kPi, true, edge, fill, outline);
      return draw_polygon(list, at, 1.25F * r, 3, 0.5F * kPi, true, edge, fill, 0);
    case Marker::kPlus:
      list.AddLine({at.x - r, at.y}, {at.x + r, at.y}, fill, edge);
      list.AddLine({at.x, at.y - r}, {at.x, at.y + r}, fill, edge);
      break;
    case Marker::kCross: {
      const float d = 0.8F * r;
      list.AddLine({at.x - d, at.y - d}, {at.x + d, at.y + d}, fill, edge);
      list.AddLine({at.x - d, at.y + d}, {at.x + d, at.y - d}, fill, edge);
      break;
    }
  }
}

}  // namespace keyscope::window
