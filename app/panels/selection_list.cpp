#include "app/panels/selection_list.hpp"

#include <string>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/token_label.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::window {
namespace {

constexpr float kPositionPx = 58;

// What became of a token by the block that is shown.
enum class Fate { kToCome, kRetained, kEvicted };

Fate fate_of(const session::SessionState& state, std::int64_t token) {
  const auto& points = state.points;
  const std::int64_t block = state.selection.block;
  const bool known = points && block >= 0 && block < points->n_blocks();
  if (!known || token >= points->seen[static_cast<std::size_t>(block)]) return Fate::kToCome;
  const std::int32_t gone = points->trace.evicted_at[static_cast<std::size_t>(token)];
  return gone >= 0 && gone <= block ? Fate::kEvicted : Fate::kRetained;
}

void draw_row(PanelContext& context, std::int64_t token, float height) {
  const auto& state = context.state();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::PushID(static_cast<int>(token));
  const bool clicked = ImGui::InvisibleButton("row", {width, height});
  ImGui::PopID();
  const Fate fate = fate_of(state, token);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (ImGui::IsItemHovered() && fate != Fate::kToCome) context.hovered = token;
  if (state.token() == token)
    list.AddRectFilled(at, {at.x + width, at.y + height}, context.theme.selected, context.px(3));
  const std::string position = figures::format_count(token);
  ImFont *small = context.fonts.small, *mono = context.fonts.mono;
  const float text_x = at.x + context.px(kPositionPx);
  draw_text(list, small, {text_x - context.px(10) - text_size(small, position).x, at.y + context.px(2)},
            context.theme.dim, position);
  const std::string text =
      fit_text(mono, figures::token_label(session::token_bytes(*state.info, state.selection.run, token)),
               at.x + width - text_x);
  ImU32 ink = fate == Fate::kToCome ? with_alpha(context.theme.dim, 0.45F) : context.theme.text;
  if (fate == Fate::kEvicted)
    ink = context.theme.light ? IM_COL32(0x9A, 0x65, 0x00, 0xFF) : to_colour(figures::kOrange, 0.9F);
  draw_text(list, mono, {text_x, at.y + context.px(1)}, ink, text);
  if (fate == Fate::kEvicted) {
    const float y = at.y + context.px(1) + 0.56F * mono->FontSize;
    list.AddLine({text_x, y}, {text_x + text_size(mono, text).x, y}, ink);
  }
  if (clicked && fate != Fate::kToCome) context.session.lock(token);
}

}  // namespace

void draw_selection_list(PanelContext& context, const Rect& rect) {
  const auto tokens = context.state().tokens;
  if (!tokens) return;
  ImGui::SetCursorScreenPos({rect.x, rect.y});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  ImGui::BeginChild("selected", {rect.w, rect.h});
  const float height = context.fonts.mono->FontSize + context.px(4);
  ImGuiListClipper rows;  // only those in sight are looked at
  rows.Begin(static_cast<int>(tokens->size()), height);
  while (rows.Step())
    for (int row = rows.DisplayStart; row < rows.DisplayEnd; ++row)
      draw_row(context, (*tokens)[static_cast<std::size_t>(row)], height);
  ImGui::EndChild();
  ImGui::PopStyleVar();
  context.widgets["selected"] = rect;
}

}  // namespace keyscope::window
