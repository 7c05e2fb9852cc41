#include "app/panels/figure_settings.hpp"

#include <array>
#include <string_view>

#include "app/figures/registry.hpp"

namespace keyscope::window {
namespace {

using figures::Reduction;
using session::FigureSettings;

// A box to tick under the option's name, if the figure has it.
void tick(PanelContext& context, const std::string& figure, const char* option, const char* label,
          const char* about, bool& value, bool& after_another) {
  if (!figures::understands(figure, option)) return;
  if (after_another) ImGui::SameLine(0, context.px(14));
  after_another = true;
  ImGui::Checkbox(label, &value);
  const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
  context.widgets[std::string("setting_") + option] = {low.x, low.y, size.x, size.y};
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", about);
}

struct ReductionChoice {
  std::optional<Reduction> reduction;
  const char* label;
};

void choose_reduction(PanelContext& context, std::optional<Reduction>& value) {
  static constexpr std::array kChoices{ReductionChoice{std::nullopt, "cells: the figure's choice"},
                                       ReductionChoice{Reduction::kMean, "cells: mean"},
                                       ReductionChoice{Reduction::kMax, "cells: largest"},
                                       ReductionChoice{Reduction::kMin, "cells: smallest"}};
  const auto* chosen = &kChoices.front();
  for (const auto& choice : kChoices)
    if (choice.reduction == value) chosen = &choice;
  ImGui::SetNextItemWidth(ImGui::CalcTextSize(kChoices.front().label).x + context.px(34));
  const bool open = ImGui::BeginCombo("##reduce", chosen->label);
  const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
  context.widgets["setting_reduce"] = {low.x, low.y, size.x, size.y};
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("What a cell shows where several tokens share it");
    return;
  }
  for (const auto& choice : kChoices)
    if (ImGui::Selectable(choice.label, choice.reduction == value)) value = choice.reduction;
  ImGui::EndCombo();
}

}  // namespace

void draw_figure_settings(PanelContext& context, const std::string& figure) {
  const bool reduces = figures::understands(figure, "reduce");
  if (!reduces && !figures::understands(figure, "ranks")) return;
  FigureSettings settings = context.state().figure_settings;
  bool after_another = false;
  ImGui::PushFont(context.fonts.small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {context.px(4), context.px(2)});
  tick(context, figure, "ranks", "ranks", "Ranks instead of values, which is what Spearman's rho compares",
       settings.ranks, after_another);
  tick(context, figure, "linear", "linear scale", "A linear colour scale instead of a logarithmic one",
       settings.linear, after_another);
  tick(context, figure, "retained", "retained only", "Only the keys that the cache still holds",
       settings.retained_only, after_another);
  if (reduces) {
    if (after_another) ImGui::SameLine(0, context.px(14));
    choose_reduction(context, settings.reduction);
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
  context.session.set_figure_settings(settings);
}

}  // namespace keyscope::window
