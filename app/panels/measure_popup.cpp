#include "app/panels/measure_popup.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace keyscope::window {
namespace {

using session::MeasureChoice;

constexpr float kPopupWidth = 450, kPopupHeight = 560;
constexpr float kReferenceShare = 0.4F;

void remember(PanelContext& context, const std::string& name) {
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  context.widgets[name] = {low.x, low.y, high.x - low.x, high.y - low.y};
}

void draw_measure(PanelContext& context, std::size_t index, const MeasureChoice& choice) {
  const bool chosen = index == context.state().measure;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float line = context.fonts.regular->FontSize, small = context.fonts.small->FontSize;
  const ImVec2 size(ImGui::GetContentRegionAvail().x, line + small + context.px(9));
  ImGui::PushID(choice.id);
  if (ImGui::Selectable("##choose", chosen, 0, size)) context.session.choose_measure(index);
  ImGui::PopID();
  remember(context, fmt::format("measure_{}", choice.id));
  if (chosen && ImGui::IsWindowAppearing()) ImGui::SetScrollHereY();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float left = at.x + context.px(6), room = size.x - context.px(12);
  draw_text(list, chosen ? context.fonts.bold : context.fonts.regular, {left, at.y + context.px(2)},
            context.theme.text, fit_text(context.fonts.bold, session::measure_label(choice), room));
  draw_text(list, context.fonts.small, {left, at.y + line + context.px(4)}, context.theme.dim,
            fit_text(context.fonts.small, choice.meaning, room));
}

void draw_measures(PanelContext& context) {
  const auto choices = session::measure_choices();
  for (std::size_t group = 0; group < choices.size(); ++group) {
    const std::string_view name = choices[group].group;
    bool first = true;
    for (std::size_t i = 0; i < group; ++i) first = first && choices[i].group != name;
    if (!first) continue;
    dim_text(context, std::string(name));
    for (std::size_t i = group; i < choices.size(); ++i)
      if (choices[i].group == name) draw_measure(context, i, choices[i]);
    ImGui::Dummy({0, context.px(4)});
  }
}

void draw_measure_box(PanelContext& context, float width) {
  const MeasureChoice& chosen = session::measure_choices()[context.state().measure];
  ImGui::SetNextItemWidth(width);
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const ImVec2 most(std::min(context.px(kPopupWidth), display.x),
                    std::min(context.px(kPopupHeight), 0.8F * display.y));
  ImGui::SetNextWindowSizeConstraints({most.x, 0}, most);
  const bool open = ImGui::BeginCombo("##measure", session::measure_label(chosen).c_str());
  if (open) {
    draw_measures(context);
    ImGui::EndCombo();
  } else if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip("%s\n(M: the next measure)", chosen.meaning);
  }
  if (!open) remember(context, "measure");
}

void draw_run(PanelContext& context, int run, const std::string& label) {
  if (ImGui::Selectable(label.c_str(), run == context.state().reference))
    context.session.choose_reference(run);
  remember(context, fmt::format("reference_{}", run));
}

void draw_reference_box(PanelContext& context, float width) {
  const auto& state = context.state();
  const bool overlap = session::measure_choices()[state.measure].of_two_runs();
  const int reference = state.map_choice().reference;
  const auto name_of = [&](int run) { return state.info->runs[static_cast<std::size_t>(run)].plan.name; };
  const char* sign = overlap ? "with" : "−";
  ImGui::SetNextItemWidth(width);
  const bool open = ImGui::BeginCombo(
      "##reference", reference < 0 ? "alone" : fmt::format("{} {}", sign, name_of(reference)).c_str());
  if (open) {
    if (!overlap) draw_run(context, -1, "alone");
    for (int run = 0; run < static_cast<int>(state.info->runs.size()); ++run)
      if (run != state.selection.run) draw_run(context, run, fmt::format("{} {}", sign, name_of(run)));
    ImGui::EndCombo();
  } else if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip(overlap ? "The run whose retained tokens are compared"
                              : "The run whose values are taken off, head by head");
  }
  if (!open) remember(context, "reference");
}

}  // namespace

void draw_map_choice(PanelContext& context) {
  const float width = ImGui::GetContentRegionAvail().x, gap = context.px(4);
  const bool several = context.state().info->runs.size() > 1;
  const float second = several ? kReferenceShare * (width - gap) : 0;
  draw_measure_box(context, width - second - (several ? gap : 0));
  if (!several) return;
  ImGui::SameLine(0, gap);
  draw_reference_box(context, second);
}

}  // namespace keyscope::window
