#include "app/panels/runs_panel.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/live_controls.hpp"

namespace keyscope::window {
namespace {

constexpr float kRowHeight = 30;
constexpr float kHeadingHeight = 44;

std::string run_detail(const recording::RecordingInfo& info, const recording::RunInfo& run) {
  if (run.blocks_done == 0) return "waiting";
  if (run.n_tokens < info.n_prompt())
    return fmt::format("{:.0f} %", 100.0 * static_cast<double>(run.n_tokens) /
                                       static_cast<double>(std::max<std::int64_t>(1, info.n_prompt())));
  return run.plan.policy == "none" ? std::string("full cache")
                                   : fmt::format("N = {}", figures::format_count(run.plan.budget));
}

void draw_run(PanelContext& context, int index) {
  const auto& state = context.state();
  const auto& run = state.info->runs[static_cast<std::size_t>(index)];
  const bool selected = index == state.selection.run;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(ImGui::GetContentRegionAvail().x, context.px(kRowHeight - 2));
  ImGui::PushID(index);
  if (ImGui::InvisibleButton("run", size)) context.session.select_run(index);
  const bool hovered = ImGui::IsItemHovered();
  ImGui::PopID();
  context.widgets[fmt::format("run_{}", index)] = {at.x, at.y, size.x, size.y};

  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (selected || hovered)
    list.AddRectFilled(at, {at.x + size.x, at.y + size.y},
                       selected ? context.theme.selected : context.theme.hover, context.px(4));
  if (selected)
    list.AddRectFilled(at, {at.x + context.px(3), at.y + size.y}, context.theme.accent, context.px(2));
  ImFont* small = context.fonts.small;
  const float text_y = at.y + 0.5F * (size.y - context.fonts.regular->FontSize);
  const float small_y = at.y + 0.5F * (size.y - small->FontSize);
  if (index < 9)
    draw_text(list, small, {at.x + context.px(10), small_y}, context.theme.dim, std::to_string(index + 1));
  const std::string detail = run_detail(*state.info, run);
  const float detail_x = at.x + size.x - context.px(8) - text_size(small, detail).x;
  const float name_x = at.x + context.px(28);
  draw_text(list, selected ? context.fonts.bold : context.fonts.regular, {name_x, text_y},
            run.blocks_done > 0 ? context.theme.text : context.theme.dim,
            fit_text(context.fonts.bold, run.plan.name, detail_x - name_x - context.px(6)));
  draw_text(list, small, {detail_x, small_y}, context.theme.dim, detail);
  if (hovered && run.plan.parameters.size() > 2)
    ImGui::SetTooltip("%s %s\nblock %lld", run.plan.policy.c_str(), run.plan.parameters.c_str(),
                      static_cast<long long>(run.plan.block_size));
}

}  // namespace

float runs_panel_height(const PanelContext& context) {
  if (!context.state().loaded()) return context.px(kHeadingHeight) + live_controls_height(context);
  const auto n_runs = static_cast<float>(context.state().info->runs.size());
  return context.px(kHeadingHeight + kRowHeight * n_runs) + live_controls_height(context);
}

void draw_runs_panel(PanelContext& context, const Rect& rect) {
  begin_panel("runs", rect);
  heading(context, "Policies");
  if (context.state().loaded()) {
    const float room = ImGui::GetContentRegionAvail().y - live_controls_height(context);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(2)});
    ImGui::BeginChild("list", {0, std::max(context.px(kRowHeight), room)}, false);
    for (int i = 0; i < static_cast<int>(context.state().info->runs.size()); ++i) draw_run(context, i);
    ImGui::EndChild();
    ImGui::PopStyleVar();
  }
  draw_live_controls(context);
  end_panel();
}

}  // namespace keyscope::window
