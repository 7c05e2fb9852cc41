#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <imgui.h>
#include <implot.h>

#include "analysis/policies/registry.hpp"
#include "app/display/widgets.hpp"
#include "app/measures/what_if.hpp"
#include "app/panels/panels.hpp"
#include "base/text.hpp"
#include "capture/replay/replay.hpp"

namespace keyscope::window {

namespace {

constexpr float kControlsPx = 300, kPolicyPx = 120;

void draw_policy(PanelContext& context, measures::WhatIf& wanted) {
  ImGui::SetNextItemWidth(context.px(kPolicyPx));
  const bool open = ImGui::BeginCombo("##what_if_policy", wanted.policy.c_str());
  note_widget(context, "what_if_policy");
  if (!open) return;
  for (const auto& entry : analysis::registered_policies()) {
    if (entry.name == "none") continue;
    const std::string why = measures::what_if_refusal(*context.state().info, entry.name);
    ImGui::BeginDisabled(!why.empty());
    if (ImGui::Selectable(entry.name.c_str(), entry.name == wanted.policy)) wanted.policy = entry.name;
    ImGui::EndDisabled();
    note_widget(context, "what_if_" + entry.name);
    if (!why.empty() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
      ImGui::SetTooltip("%s", why.c_str());
  }
  ImGui::EndCombo();
}

// What the numbers are worth.
std::string worth_of(const session::SessionState& state) {
  const recording::RunPlan& plan = state.info->runs.back().plan;
  if (plan.oracle) return "replayed by an oracle: it scores by attention of the whole prompt";
  return fmt::format("replayed on the full cache's keys: exact in layer {}",
                     replay::exact_layer(*state.info));
}

// One curve over the budget, with where the slider stands; a drag along it moves the slider.
void draw_curve(PanelContext& context, const char* name, const std::vector<double>& x,
                const std::vector<double>& y, ImVec2 size, measures::WhatIf& wanted) {
  ImGui::BeginGroup();
  const float above = ImGui::GetCursorPosY();
  dim_text(context, fit_text(context.fonts.small, name, size.x));
  size.y -= ImGui::GetCursorPosY() - above;
  push_font(context.fonts.small);
  constexpr ImPlotFlags kBare = ImPlotFlags_NoLegend | ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                ImPlotFlags_NoFrame | ImPlotFlags_NoTitle | ImPlotFlags_NoBoxSelect;
  if (ImPlot::BeginPlot(fmt::format("##{}", name).c_str(), size, kBare)) {
    ImPlot::SetupAxis(ImAxis_X1, nullptr, ImPlotAxisFlags_Lock | ImPlotAxisFlags_NoMenus);
    ImPlot::SetupAxis(ImAxis_Y1, nullptr, ImPlotAxisFlags_AutoFit | ImPlotAxisFlags_NoMenus);
    constexpr std::array kTicks{0.0, 50.0, 100.0};
    constexpr std::array kNames{"0", "50", "100 %"};
    ImPlot::SetupAxisTicks(ImAxis_X1, kTicks.data(), static_cast<int>(kTicks.size()), kNames.data());
    ImPlot::SetupAxisLimits(ImAxis_X1, 0, 103, ImPlotCond_Always);
    ImPlot::PlotLine("curve", x.data(), y.data(), static_cast<int>(x.size()),
                     {ImPlotProp_LineColor, context.theme.accent, ImPlotProp_LineWeight, context.px(1.6F)});
    double at = 100 * wanted.share;
    if (ImPlot::DragLineX(0, &at, ImGui::ColorConvertU32ToFloat4(context.theme.text), 1,
                          ImPlotDragToolFlags_NoFit))
      wanted.share = std::clamp(at / 100, 0.05, 1.0);
    ImPlot::EndPlot();
  }
  ImGui::PopFont();
  ImGui::EndGroup();
}

void draw_curves(PanelContext& context, measures::WhatIf& wanted) {
  const auto& state = context.state();
  const measures::BudgetCurve& curve = state.budget_curve;
  const bool current = curve.policy == wanted.policy && curve.layer == state.selection.layer &&
                       curve.kv_head == state.selection.kv_head;
  if (!current || curve.points.empty())
    return dim_text(context,
                    current && !curve.error.empty() ? curve.error : "the curves of this head: making …");
  std::vector<double> x, kept, volume;
  for (const measures::BudgetPoint& point : curve.points) {
    x.push_back(100 * point.share);
    kept.push_back(100 * point.attention_kept);
    volume.push_back(point.log_volume);
  }
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const ImVec2 size(0.5F * (room.x - ImGui::GetStyle().ItemSpacing.x), std::max(context.px(40), room.y));
  draw_curve(context, "attention kept, %", x, kept, size, wanted);
  ImGui::SameLine();
  draw_curve(context, "log volume, nats", x, volume, size, wanted);
}

}  // namespace

void draw_budget_panel(PanelContext& context) {
  const auto& state = context.state();
  measures::WhatIf wanted = state.what_if.value_or(measures::WhatIf{state.usual_what_if(), 0.25});
  const std::string why = measures::what_if_refusal(*state.info, wanted.policy);
  if (!why.empty() && !state.what_if)
    return dim_text(context, "What a policy would keep cannot be asked: " + why + ".");
  const measures::WhatIf before = wanted;
  ImGui::BeginChild("controls", {context.px(kControlsPx), 0}, 0, ImGuiWindowFlags_NoScrollbar);
  draw_policy(context, wanted);
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  const std::int64_t rows = analysis::Budget::of_share(wanted.share).rows_for(state.info->n_prompt());
  dim_text(context,
           fmt::format("keeps {} of {} rows", format_count(rows), format_count(state.info->n_prompt())));
  auto percent = static_cast<float>(100 * wanted.share);
  ImGui::SetNextItemWidth(-1);
  if (ImGui::SliderFloat("##budget", &percent, 5, 100, "%.0f %%", ImGuiSliderFlags_AlwaysClamp))
    wanted.share = std::round(percent) / 100.0;
  note_widget(context, "budget_slider");
  if (state.what_if) {
    ImGui::PushTextWrapPos(0);
    dim_text(context, worth_of(state));
    ImGui::PopTextWrapPos();
  } else {
    dim_text(context, "drag: what it would keep of this prompt");
  }
  ImGui::EndChild();
  ImGui::SameLine();
  ImGui::BeginGroup();
  draw_curves(context, wanted);
  ImGui::EndGroup();
  context.session.want_budget_curve(wanted.policy);
  if (wanted != before) context.session.ask_what_if(wanted);
}

}  // namespace keyscope::window
