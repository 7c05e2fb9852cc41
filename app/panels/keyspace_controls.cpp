#include "app/panels/keyspace_controls.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "app/figures/key_values.hpp"
#include "app/panels/tick_box.hpp"

namespace keyscope::window {
namespace {

constexpr float kProjectionPx = 92, kColourPx = 158, kGapPx = 8;

std::string with_capital(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

void note_widget(PanelContext& context, const char* name) {
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  context.widgets[name] = {low.x, low.y, high.x - low.x, high.y - low.y};
}

void draw_projection(PanelContext& context, figures::KeyspaceLook look) {
  const auto choices = figures::projection_choices();
  const auto chosen = std::ranges::find(choices, look.projection, &figures::ProjectionChoice::projection);
  ImGui::SetNextItemWidth(context.px(kProjectionPx));
  const bool open = ImGui::BeginCombo("##projection", chosen->label.data());
  note_widget(context, "projection");
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Shown in %s", chosen->meaning.data());
    return;
  }
  for (const auto& choice : choices) {
    if (ImGui::Selectable(choice.label.data(), choice.projection == look.projection)) {
      look.projection = choice.projection;
      context.session.choose_look(look);
    }
    note_widget(context, ("projection_" + std::string(choice.id)).c_str());
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", with_capital(std::string(choice.meaning)).c_str());
  }
  ImGui::EndCombo();
}

void draw_colour(PanelContext& context, figures::KeyspaceLook look) {
  const auto& state = context.state();
  const auto choices = figures::key_colour_choices();
  const auto chosen = std::ranges::find(choices, look.colour, &figures::KeyColourChoice::colour);
  ImGui::SetNextItemWidth(context.px(kColourPx));
  const bool open = ImGui::BeginCombo("##colour", chosen->label.data());
  note_widget(context, "colour");
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Coloured by %s", chosen->meaning.data());
    return;
  }
  for (const auto& choice : choices) {
    const std::string why = figures::colour_refusal(*state.info, state.selection.run, choice.colour);
    ImGui::PushStyleColor(ImGuiCol_Text, why.empty() ? context.theme.text : context.theme.dim);
    if (ImGui::Selectable(choice.label.data(), choice.colour == look.colour) && why.empty()) {
      look.colour = choice.colour;
      context.session.choose_look(look);
    }
    ImGui::PopStyleColor();
    note_widget(context, ("colour_" + std::string(choice.id)).c_str());
    const std::string says = why.empty() ? with_capital(std::string(choice.meaning)) : why;
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", says.c_str());
  }
  ImGui::EndCombo();
}

void draw_queries(PanelContext& context, figures::KeyspaceLook look) {
  const bool recorded = context.state().info->queries;
  bool shown = look.queries && recorded;
  ImGui::PushStyleColor(ImGuiCol_Text, recorded ? context.theme.text : context.theme.dim);
  if (tick_box(context, "Queries", &shown) && recorded) {
    look.queries = shown;
    context.session.choose_look(look);
  }
  ImGui::PopStyleColor();
  note_widget(context, "queries");
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("%s", recorded ? "The queries of all heads that read these keys (Q)"
                                     : "Queries were not recorded: capture with --record keys,queries");
}

}  // namespace

float keyspace_controls_width(const PanelContext& context) {
  return context.px(kProjectionPx + kColourPx + 2 * kGapPx) + ImGui::GetFrameHeight() +
         ImGui::GetStyle().ItemInnerSpacing.x + text_size(context.fonts.regular, "Queries").x;
}

void draw_keyspace_controls(PanelContext& context) {
  const figures::KeyspaceLook look = context.state().look;
  draw_projection(context, look);
  ImGui::SameLine(0, context.px(kGapPx));
  draw_colour(context, look);
  ImGui::SameLine(0, context.px(kGapPx));
  draw_queries(context, look);
}

}  // namespace keyscope::window
