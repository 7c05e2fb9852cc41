#include "app/panels/progress_bar.hpp"

namespace keyscope::window {

void draw_progress_bar(const PanelContext& context, ImVec2 at, ImVec2 size, double share) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float rounding = 0.5F * size.y;
  list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, context.theme.missing, rounding);
  const float done = size.x * static_cast<float>(share);
  if (done > 1) list.AddRectFilled(at, {at.x + done, at.y + size.y}, context.theme.accent, rounding);
}

}  // namespace keyscope::window
