#include "app/panels/tick_box.hpp"

#include <imgui.h>

#include "app/panels/outlined_frame.hpp"

namespace keyscope::window {

bool tick_box(const PanelContext& context, const char* label, bool* value) {
  const OutlinedFrame outlined(context);
  return ImGui::Checkbox(label, value);
}

}  // namespace keyscope::window
