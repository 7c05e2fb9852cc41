#include "app/panels/markers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace keyscope::window {

using figures::Marker;

namespace {

constexpr float kPi = std::numbers::pi_v<float>;

// A regular polygon with its first corner at angle `start`, clockwise from the right.
void draw_polygon(ImDrawList& list, ImVec2 at, float radius, int n_corners, float start, bool filled,
                  float edge, ImU32 fill, ImU32 outline) {
  std::array<ImVec2, 4> corners;
  for (int i = 0; i < n_corners; ++i) {
    const float angle = start + 2 * kPi * static_cast<float>(i) / static_cast<float>(n_corners);
    corners[static_cast<std::size_t>(i)] = {at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)};
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

// ImGui has no rotated text: it is drawn level and its vertices are turned about the centre.
void draw_vertical_text(ImDrawList& list, ImFont* font, ImVec2 centre, ImU32 colour,
                        const std::string& text) {
  const ImVec2 size = text_size(font, text);
  const int first = list.VtxBuffer.Size;
  const ImVec2 corner(std::floor(centre.x - 0.5F * size.x), std::floor(centre.y - 0.5F * size.y));
  // Clipping is by the level text's rectangle, so it must not apply.
  list.PushClipRectFullScreen();
  draw_text(list, font, corner, colour, text);
  list.PopClipRect();
  const ImVec2 about(std::floor(centre.x), std::floor(centre.y));
  for (int i = first; i < list.VtxBuffer.Size; ++i) {
    ImVec2& at = list.VtxBuffer[i].pos;
    at = ImVec2(about.x + (at.y - about.y), about.y - (at.x - about.x));
  }
}

void draw_vertical_lines(ImDrawList& list, ImFont* font, ImVec2 at, ImU32 colour,
                         const std::vector<std::string>& lines) {
  const float height = text_size(font, "0").y;
  for (std::size_t i = 0; i < lines.size(); ++i)
    draw_vertical_text(list, font, {at.x + (static_cast<float>(i) + 0.5F) * height, at.y}, colour, lines[i]);
}

}  // namespace keyscope::window
