#include "app/panels/keyspace_title.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/keyspace_controls.hpp"

namespace keyscope::window {
namespace {

constexpr float kLeastDetailPx = 150;

std::string detail_of(const PanelContext& context, const session::KeyspacePicture* shown) {
  const auto& state = context.state();
  const auto& plan = state.run().plan;
  std::string detail = plan.policy == "none"
                           ? std::string("none: full cache")
                           : fmt::format("{}, N = {}", plan.name, figures::format_count(plan.budget));
  if (plan.replayed) detail += ", replayed on full-cache keys";
  if (plan.oracle) detail += plan.replayed ? " by an oracle" : ", by an oracle";
  const auto add = [&](const std::string& what) {
    if (!what.empty()) detail += "  ·  " + what;
  };
  if (state.tokens)
    add(fmt::format("{} selected", figures::format_count(static_cast<long long>(state.tokens->size()))));
  if (shown != nullptr) {
    const bool anchored = shown->key.look.projection == figures::Projection::kAnchor;
    add(anchored ? "the anchor moves from block to block, and every point with it" : "");
    add(shown->refusal);
    add(shown->panel.note);
  }
  if (state.reading || state.drawing) add("reading …");
  return detail;
}

void draw_detail(const PanelContext& context, const std::string& detail, float room) {
  dim_text(context, fit_text(context.fonts.small, detail, room));
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", detail.c_str());
}

}  // namespace

void draw_keyspace_title(PanelContext& context, const session::KeyspacePicture* shown) {
  const auto& selection = context.state().selection;
  const std::string title = fmt::format("Layer {}, KV head {}", selection.layer, selection.kv_head);
  const std::string detail = detail_of(context, shown);
  const float right = ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x;
  const float controls = keyspace_controls_width(context), gap = context.px(16);
  const float title_width = text_size(context.fonts.title, title).x;
  const bool beside = ImGui::GetContentRegionAvail().x >= title_width + controls + gap;
  const float y = ImGui::GetCursorPosY();
  ImGui::PushFont(context.fonts.title);
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  const float room = (beside ? right - controls - gap : right) - ImGui::GetCursorPosX();
  const bool fits = room >= std::min(context.px(kLeastDetailPx), text_size(context.fonts.small, detail).x);
  if (fits) {
    ImGui::SetCursorPosY(y + context.px(4));
    draw_detail(context, detail, room);
    ImGui::SameLine();
  }
  if (beside)
    ImGui::SetCursorPos({right - controls, y});
  else
    ImGui::NewLine();
  draw_keyspace_controls(context);
  if (!fits) draw_detail(context, detail, ImGui::GetContentRegionAvail().x);
}

}  // namespace keyscope::window
