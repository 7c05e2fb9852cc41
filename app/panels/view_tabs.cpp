#include "app/panels/view_tabs.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace keyscope::window {
namespace {

using session::ViewChoice;

constexpr float kHeight = 30, kPadding = 10, kGap = 2;

bool is_recorded(const PanelContext& context, const ViewChoice& view) {
  return view.name == session::kTextView || figures::is_recorded(*context.state().info, view.name);
}

float tab_width(const PanelContext& context, const std::string& label) {
  return text_size(context.fonts.regular, label).x + 2 * context.px(kPadding);
}

// One tab at the cursor; true if it was clicked.
bool draw_tab(PanelContext& context, const std::string& name, const std::string& label, bool selected,
              bool available) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(tab_width(context, label), context.px(kHeight));
  const bool clicked = ImGui::InvisibleButton(name.c_str(), size);
  const bool hovered = ImGui::IsItemHovered();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (selected || hovered)
    list.AddRectFilled(at, {at.x + size.x, at.y + size.y},
                       selected ? context.theme.selected : context.theme.hover, context.px(5));
  const ImVec2 text = text_size(context.fonts.regular, label);
  const ImU32 colour = selected ? context.theme.text : context.theme.dim;
  draw_text(list, context.fonts.regular, {at.x + context.px(kPadding), at.y + 0.5F * (size.y - text.y)},
            available ? colour : with_alpha(context.theme.dim, 0.5F), label);
  context.widgets["view_" + name] = {at.x, at.y, size.x, size.y};
  return clicked;
}

// The views without a tab of their own.
void draw_menu(PanelContext& context, std::size_t n_tabs) {
  if (!ImGui::BeginPopup("more_views")) return;
  const auto& views = session::view_choices();
  for (std::size_t i = n_tabs; i < views.size(); ++i) {
    const bool available = is_recorded(context, views[i]);
    ImGui::PushStyleColor(ImGuiCol_Text, available ? context.theme.text : context.theme.dim);
    if (ImGui::MenuItem(views[i].label.c_str(), nullptr, context.state().view == views[i].name))
      context.session.choose_view(views[i].name);
    ImGui::PopStyleColor();
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    context.widgets["view_" + views[i].name] = {low.x, low.y, high.x - low.x, high.y - low.y};
  }
  ImGui::EndPopup();
}

}  // namespace

float view_tabs_height(const PanelContext& context) { return context.px(kHeight); }

void draw_view_tabs(PanelContext& context, const Rect& rect) {
  ImGui::SetNextWindowPos({rect.x, rect.y});
  ImGui::SetNextWindowSize({rect.w, rect.h});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  ImGui::Begin("views", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoNav |
                   ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar(2);
  const auto& views = session::view_choices();
  const auto& chosen = context.state().view;
  const auto at = std::ranges::find(views, chosen, &ViewChoice::name) - views.begin();
  // The menu's tab has the name of what was chosen there.
  const auto tab_of_menu = [&](std::size_t n_tabs) {
    const bool in_menu = at >= static_cast<std::ptrdiff_t>(n_tabs);
    return (in_menu ? views[static_cast<std::size_t>(at)].label : std::string("More")) + " ▾";
  };
  std::size_t n_tabs = session::n_view_tabs();
  const auto needed = [&] {
    float width = tab_width(context, tab_of_menu(n_tabs));
    for (std::size_t i = 0; i < n_tabs; ++i) width += tab_width(context, views[i].label) + context.px(kGap);
    return width;
  };
  while (n_tabs > 1 && needed() > rect.w) --n_tabs;  // what does not fit is in the menu
  for (std::size_t i = 0; i < n_tabs; ++i) {
    if (draw_tab(context, views[i].name, views[i].label, views[i].name == chosen,
                 is_recorded(context, views[i])))
      context.session.choose_view(views[i].name);
    ImGui::SameLine(0, context.px(kGap));
  }
  if (draw_tab(context, "more", tab_of_menu(n_tabs), at >= static_cast<std::ptrdiff_t>(n_tabs), true))
    ImGui::OpenPopup("more_views");
  draw_menu(context, n_tabs);
  ImGui::End();
}

}  // namespace keyscope::window
