#pragma once

#include <vector>

#include <imgui.h>

#include "app/window/frame_damage.hpp"
#include "app/display/gl_objects.hpp"

namespace keyscope::window {

// The window's last picture, in which only what ImGui draws otherwise than before is drawn again: a frame
// costs what it changes. Without a graphics card nearly all of a frame is filling pixels.
class KeptFrame {
 public:
  // Draws what ImGui::Render made, and copies the picture into the framebuffer that is bound.
  //   ground: the colour under everything
  void draw(ImDrawData& data, ImU32 ground, int width, int height);

  // How many pixels were drawn the last time, of all.
  double share_drawn() const { return share_drawn_; }

 private:
  void draw_part(const ImDrawData& data, const PixelRect& part, ImU32 ground);

  RenderTarget picture_;
  std::vector<ListMark> marks_;
  ImU32 ground_ = 0;
  double share_drawn_ = 0;
};

}  // namespace keyscope::window
