#include "app/panels/keyspace_title.hpp"

#include <string>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/keyspace_controls.hpp"

namespace keyscope::window {
namespace {

// Beside the name: what is long stays on one line, so that the plot keeps its place while things are read.
std::string policy_of(const session::SessionState& state) {
  if (state.comparing()) return fmt::format("{} runs side by side", state.tiles.size());
  const auto& plan = state.run().plan;
  std::string text = plan.policy == "none"
                         ? std::string("none: full cache")
                         : fmt::format("{}, N = {}", plan.name, figures::format_count(plan.budget));
  if (plan.replayed) text += ", replayed on full-cache keys";
  if (plan.oracle) text += plan.replayed ? " by an oracle" : ", by an oracle";
  if (state.reading || state.drawing)
    text += "  ·  reading …";
  else if (state.settling)
    text += "  ·  axes from some keys and queries, all to come …";
  return text;
}

// Whether the picture may have notes, at this block or at another one.
bool takes_notes(const session::KeyspacePicture* shown) {
  if (shown == nullptr) return false;
  using figures::KeyColour;
  const figures::KeyspaceLook& look = shown->key.look;
  const bool some_lack_values = look.colour == KeyColour::kAttention || look.colour == KeyColour::kScore ||
                                look.colour == KeyColour::kMargin;
  return look.projection == figures::Projection::kAnchor || some_lack_values || !shown->refusal.empty() ||
         !shown->panel.note.empty();
}

std::string notes_of(const session::KeyspacePicture& shown) {
  std::string text;
  const auto add = [&](const std::string& what) {
    if (!what.empty()) text += (text.empty() ? "" : "  ·  ") + what;
  };
  add(shown.refusal);
  if (shown.key.look.projection == figures::Projection::kAnchor)
    add("the anchor moves from block to block, and every point with it");
  add(shown.panel.note);
  return text;
}

void draw_fitted(const PanelContext& context, const std::string& text, float room) {
  const std::string fitted = fit_text(context.fonts.small, text, room);
  dim_text(context, fitted);
  if (fitted != text && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text.c_str());
}

}  // namespace

void draw_keyspace_title(PanelContext& context, const session::KeyspacePicture* shown) {
  const auto& selection = context.state().selection;
  const std::string title = fmt::format("Layer {}, KV head {}", selection.layer, selection.kv_head);
  const float right = ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x;
  const float controls = keyspace_controls_width(context), gap = context.px(16);
  const float title_width = text_size(context.fonts.title, title).x;
  const bool beside = ImGui::GetContentRegionAvail().x >= title_width + controls + 5 * gap;
  const float y = ImGui::GetCursorPosY();
  ImGui::PushFont(context.fonts.title);
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::SetCursorPosY(y + context.px(4));
  draw_fitted(context, policy_of(context.state()),
              (beside ? right - controls - gap : right) - ImGui::GetCursorPosX());
  if (beside) {
    ImGui::SameLine();
    ImGui::SetCursorPos({right - controls, y});
  }
  draw_keyspace_controls(context);
  if (takes_notes(shown)) draw_fitted(context, notes_of(*shown), ImGui::GetContentRegionAvail().x);
}

}  // namespace keyscope::window
