#include "app/panels/markers.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::window {

using figures::Marker;

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
    case Marker::kDiamond: {
      const float d = 1.2F * r;
      const ImVec2 corners[] = {{at.x, at.y - d}, {at.x + d, at.y}, {at.x, at.y + d}, {at.x - d, at.y}};
      list.AddConvexPolyFilled(corners, 4, fill);
      if (outlined) list.AddPolyline(corners, 4, outline, ImDrawFlags_Closed, edge);
      break;
    }
    case Marker::kTriangle: {
      const float d = 1.25F * r;
      const ImVec2 corners[] = {
          {at.x, at.y - d}, {at.x + 0.92F * d, at.y + 0.62F * d}, {at.x - 0.92F * d, at.y + 0.62F * d}};
      list.AddConvexPolyFilled(corners, 3, fill);
      if (outlined) list.AddPolyline(corners, 3, outline, ImDrawFlags_Closed, edge);
      break;
    }
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

}  // namespace keyscope::window
