#include "app/panels/figure_settings.hpp"

#include <array>
#include <string>
#include <string_view>

#include "app/figures/registry.hpp"
#include "app/panels/tick_box.hpp"

namespace keyscope::window {
namespace {

using figures::MatrixOrder;
using figures::Reduction;
using session::FigureSettings;

void note_setting(PanelContext& context, const std::string& name) {
  const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
  context.widgets[name] = {low.x, low.y, size.x, size.y};
}

// A box to tick under the option's name, if the figure has it.
void tick(PanelContext& context, const std::string& figure, const char* option, const char* label,
          const char* about, bool& value, bool& after_another) {
  if (!figures::understands(figure, option)) return;
  if (after_another) ImGui::SameLine(0, context.px(14));
  after_another = true;
  tick_box(context, label, &value);
  note_setting(context, std::string("setting_") + option);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", about);
}

struct OrderChoice {
  MatrixOrder order;
  const char* label;
};

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
  note_setting(context, "setting_reduce");
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("What a cell shows where several tokens share it");
    return;
  }
  for (const auto& choice : kChoices)
    if (ImGui::Selectable(choice.label, choice.reduction == value)) value = choice.reduction;
  ImGui::EndCombo();
}

void choose_order(PanelContext& context, MatrixOrder& value) {
  static constexpr std::array kChoices{OrderChoice{MatrixOrder::kPosition, "order: token position"},
                                       OrderChoice{MatrixOrder::kDendrogram, "order: dendrogram"}};
  const auto* chosen = &kChoices.front();
  for (const auto& choice : kChoices)
    if (choice.order == value) chosen = &choice;
  ImGui::SetNextItemWidth(ImGui::CalcTextSize(kChoices.front().label).x + context.px(34));
  const bool open = ImGui::BeginCombo("##order", chosen->label);
  note_setting(context, "setting_order");
  if (!open) {
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip("By dendrogram similar keys stand side by side: average linkage on 1 − cosine");
    return;
  }
  for (const auto& choice : kChoices) {
    if (ImGui::Selectable(choice.label, choice.order == value)) value = choice.order;
    note_setting(context, "setting_order_" + std::string(figures::order_name(choice.order)));
  }
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
  if (figures::understands(figure, "order")) {
    if (after_another) ImGui::SameLine(0, context.px(14));
    after_another = true;
    choose_order(context, settings.order);
  }
  if (reduces) {
    if (after_another) ImGui::SameLine(0, context.px(14));
    choose_reduction(context, settings.reduction);
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
  context.session.set_figure_settings(settings);
}

}  // namespace keyscope::window
