#include "app/panels/token_tooltip.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/tooltip_place.hpp"

namespace keyscope::window {

void draw_token_tooltip(PanelContext& context, const session::TokenFacts& facts, const Rect& plot) {
  const std::string text = facts.text.empty() ? "(text not recorded)" : facts.text;
  const std::string fate =
      facts.retained ? std::string("retained") : fmt::format("evicted at block {}", *facts.evicted_at);
  std::vector<std::string> lines{fmt::format("position {}, {}", figures::format_count(facts.position), fate)};
  if (facts.score) lines.push_back("score " + figures::format_signed(*facts.score, 4));
  if (facts.attention_received)
    lines.push_back(fmt::format("attention received {:.4g}", *facts.attention_received));

  const ImGuiStyle& style = ImGui::GetStyle();
  ImVec2 size = text_size(context.fonts.mono, text);
  for (const std::string& line : lines) {
    const ImVec2 added = text_size(context.fonts.small, line);
    size = {std::max(size.x, added.x), size.y + style.ItemSpacing.y + added.y};
  }
  const ImVec2 mouse = ImGui::GetMousePos();
  const Pixel at = place_tooltip({mouse.x, mouse.y},
                                 {size.x + 2 * style.WindowPadding.x, size.y + 2 * style.WindowPadding.y},
                                 plot, context.px(16));
  ImGui::SetNextWindowPos({at.x, at.y}, ImGuiCond_Always);
  ImGui::BeginTooltip();
  ImGui::PushFont(context.fonts.mono);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopFont();
  for (const std::string& line : lines) dim_text(context, line);
  const ImVec2 corner = ImGui::GetWindowPos();
  const ImVec2 drawn = ImGui::GetWindowSize();
  context.widgets["tooltip"] = {corner.x, corner.y, drawn.x, drawn.y};
  ImGui::EndTooltip();
}

}  // namespace keyscope::window
