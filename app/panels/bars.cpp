#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <imgui_internal.h>

#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/panels/panels.hpp"
#include "app/session/live.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

struct BarButton {
  const char* label;
  std::string_view action;
};

constexpr std::array<BarButton, 5> kButtons{
    {{"Open", "open"}, {"Run a model", "live"}, {"Export", "export"}, {"Theme", "theme"}, {"?", "help"}}};
constexpr float kTopHeight = 46, kStatusHeight = 27;

std::string hint(const PanelContext& context, const Action& action) {
  const std::string keys = shortcut_text(action.shortcut);
  const std::string_view refusal = action.refusal(context.session);
  return fmt::format("{}{}{}{}", action.name, keys.empty() ? "" : fmt::format(" ({})", keys),
                     refusal.empty() ? "" : ": ", refusal);
}

float button_width(const PanelContext& context, const BarButton& button) {
  return text_size(context.fonts.regular, button.label).x + 2 * ImGui::GetStyle().FramePadding.x;
}

// Those that fit; the first to go are those that have keys.
std::vector<BarButton> fitting_buttons(const PanelContext& context, float room, float gap, float& width) {
  std::vector<BarButton> buttons(kButtons.begin(), kButtons.end());
  if (context.session.save_refusal().empty()) buttons.insert(buttons.begin(), {"Save", "save"});
  const auto total = [&] {
    float sum = -gap;
    for (const BarButton& button : buttons) sum += button_width(context, button) + gap;
    return sum;
  };
  for (const std::string_view first : {"theme", "export", "live"})
    if (total() > room)
      std::erase_if(buttons, [&](const BarButton& button) { return button.action == first; });
  width = total();
  return buttons;
}

// One view of the menu: those that are open have a tick. What was not recorded is dim, and says so.
void draw_view_item(PanelContext& context, const session::ViewChoice& view) {
  const auto& state = context.state();
  const auto& open = state.arrangement.views;
  const bool is_open = std::ranges::find(open, view.name) != open.end();
  const bool recorded = session::can_show(*state.info, view.name);
  if (ImGui::MenuItem(view.label.c_str(), nullptr, is_open, recorded)) {
    if (is_open && state.view == view.name)
      context.session.close_view(view.name);
    else
      context.session.choose_view(view.name);
  }
  note_widget(context, "menu_" + view.name);
  if (!recorded && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    ImGui::SetTooltip("was not recorded");
}

void draw_views_menu(PanelContext& context) {
  if (!ImGui::BeginPopup("views_menu")) return;
  const auto& views = session::view_choices();
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (i == session::n_view_tabs()) ImGui::Separator();
    draw_view_item(context, views[i]);
  }
  ImGui::EndPopup();
}

// How panels and views lie: ways that there are, the user's own, and which panels there are at all.
void draw_layout_menu(PanelContext& context, Workspace& workspace) {
  if (!ImGui::BeginPopup("layout_menu")) return;
  for (const NamedLayout& layout : named_layouts()) {
    if (ImGui::MenuItem(layout.name.data(), nullptr, workspace.layout() == layout.name))
      Workspace::choose(context.session, layout.name);
    note_widget(context, fmt::format("layout_{}", layout.name));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", layout.about.data());
  }
  ImGui::SeparatorText("Yours");
  for (const std::string& mine : workspace.saved()) {
    if (ImGui::MenuItem(mine.c_str())) workspace.restore(context.session, mine);
    note_widget(context, "layout_" + mine);
  }
  static std::string name;  // of one menu, which is open or not
  ImGui::SetNextItemWidth(context.px(130));
  text_field(context, "##layout_name", "Name", &name);
  note_widget(context, "layout_name");
  ImGui::SameLine();
  ImGui::BeginDisabled(!session::is_arrangement_name(name));
  if (ImGui::Button("Keep")) {
    workspace.save(context.session, name);
    name.clear();
    ImGui::CloseCurrentPopup();
  }
  note_widget(context, "layout_keep");
  ImGui::EndDisabled();
  ImGui::SeparatorText("Panels");
  for (const PanelName& panel : kPanelNames) {
    if (ImGui::MenuItem(panel.title.data(), nullptr, !workspace.is_closed(panel.kind)))
      workspace.toggle(panel.kind);
    note_widget(context, fmt::format("panel_{}", panel.id));
  }
  ImGui::EndPopup();
}

// The two menus, while a recording is open; returns where they begin.
float draw_menus(PanelContext& context, Workspace& workspace, const Rect& rect, float right) {
  if (!context.state().loaded()) return right;
  const float gap = context.px(6), y = rect.y + 0.5F * (rect.height - ImGui::GetFrameHeight());
  const auto width = [&](const char* label) {
    return text_size(context.fonts.regular, label).x + 2 * ImGui::GetStyle().FramePadding.x;
  };
  const float left = right - width("Views ▾") - width("Layout ▾") - 2 * gap - context.px(8);
  ImGui::SetCursorScreenPos({left, y});
  if (ImGui::Button("Views ▾")) ImGui::OpenPopup("views_menu");
  note_widget(context, "views");
  draw_views_menu(context);
  ImGui::SameLine(0, gap);
  if (ImGui::Button("Layout ▾")) ImGui::OpenPopup("layout_menu");
  note_widget(context, "layout");
  draw_layout_menu(context, workspace);
  return left;
}

const Action* draw_buttons(PanelContext& context, const Rect& rect, float& left) {
  const float gap = context.px(6);
  float width = 0;
  const float menus = context.state().loaded() ? context.px(190) : 0;
  const auto buttons = fitting_buttons(context, rect.width - menus - context.px(24), gap, width);
  left = rect.right() - width - context.px(12);
  ImGui::SetCursorScreenPos({left, rect.y + 0.5F * (rect.height - ImGui::GetFrameHeight())});
  const Action* clicked = nullptr;
  for (const BarButton& button : buttons) {
    const Action& meant = action(button.action);
    ImGui::BeginDisabled(!meant.refusal(context.session).empty());
    if (ImGui::Button(button.label)) clicked = &meant;
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
      ImGui::SetTooltip("%s", hint(context, meant).c_str());
    note_widget(context, std::string(button.action));
    ImGui::SameLine(0, gap);
  }
  return clicked;
}

std::string describe_recording(const recording::RecordingInfo& info) {
  const std::string keyless = info.keyless_layers.empty()
                                  ? ""
                                  : fmt::format(", and {} layers without keys", info.keyless_layers.size());
  return fmt::format("{}{} tokens, {} layers × {} of {}{}{}",
                     info.model.name.empty() ? "" : info.model.name + ": ", format_count(info.n_prompt()),
                     info.layers.size(), figures::describe_kv_heads(info),
                     info.model.layer_heads.empty() ? "" : "up to ", info.model.head_dim, keyless);
}

std::string source_name(const session::SessionState& state) {
  if (state.figure_file) return std::filesystem::path(state.figure_path).filename().string();
  if (!state.info) return "Keyscope";
  const std::string name =
      std::filesystem::path(state.path.empty() ? state.info->source : state.path).filename().string();
  return name.empty() ? "Keyscope" : name;
}

// The name of what is shown; of a file that holds several, a menu of them. Returns where it ends.
float draw_name(PanelContext& context, const Rect& rect, float left, float room) {
  const auto& state = context.state();
  const Font& font = context.fonts.title;
  if (room < context.px(30)) return left;
  if (state.documents.empty()) {
    const std::string name = fit_text(font, source_name(state), room);
    draw_text(*ImGui::GetWindowDrawList(), font, {left, rect.y + 0.5F * (rect.height - font.size)},
              context.theme.text, name);
    return left + text_size(font, name).x;
  }
  push_font(font);
  const float padding = ImGui::GetStyle().FramePadding.x;
  const std::string name =
      fit_text(font, std::filesystem::path(state.documents[state.document]).filename().string(),
               room - text_size(font, " ▾").x - 2 * padding);
  ImGui::SetCursorScreenPos({left - padding, rect.y + 0.5F * (rect.height - ImGui::GetFrameHeight())});
  if (ImGui::Button((name + " ▾###documents").c_str())) ImGui::OpenPopup("documents_menu");
  ImGui::PopFont();
  const float end = ImGui::GetItemRectMax().x;
  note_widget(context, "documents");
  if (ImGui::BeginPopup("documents_menu")) {
    for (std::size_t i = 0; i < state.documents.size(); ++i) {
      const std::string path = state.documents[i];
      if (ImGui::MenuItem(path.substr(path.rfind("::") + 2).c_str(), nullptr, i == state.document))
        context.session.open(path);
      note_widget(context, fmt::format("document_{}", i));
    }
    ImGui::EndPopup();
  }
  return end;
}

// The job that is spoken of: the first one that takes longer than a moment, for the others would only
// flicker.
std::optional<JobStatus> job_in_work(const session::SessionState& state) {
  constexpr double kWorthSaying = 0.5;
  for (const auto& job : state.jobs)
    if (const auto status = job->status(); status.elapsed_seconds >= kWorthSaying) return status;
  return std::nullopt;
}

// Cancel and a bar, before the words, which grow and shrink. Returns where these begin.
float draw_job(PanelContext& context, const JobStatus& job, const Rect& rect, float left) {
  push_font(context.fonts.small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {context.px(8), context.px(1)});
  ImGui::SetCursorScreenPos({left, rect.y + 0.5F * (rect.height - ImGui::GetFrameHeight())});
  ImGui::BeginDisabled(job.cancelled);
  if (ImGui::Button("Cancel")) context.session.cancel_jobs();
  ImGui::EndDisabled();
  ImGui::PopStyleVar();
  ImGui::PopFont();
  note_widget(context, "cancel_jobs");
  const ImVec2 high = ImGui::GetItemRectMax();
  const ImVec2 size{context.px(96), context.px(6)};
  const float bar = high.x + context.px(10);
  if (job.total > 0)
    draw_progress_bar(context, {bar, rect.y + 0.5F * (rect.height - size.y)}, size, share_done(job));
  return job.total > 0 ? bar + size.x + context.px(10) : bar;
}

std::string what_can_be_done(const session::SessionState& state) {
  if (state.loaded() && state.view == session::kTextView)
    return "click: hold a token   Ctrl+F: find   ?: all keys";
  if (state.loaded() && state.view == session::kDifferenceView)
    return "click: hold a token   on a heading: sort   ?: all keys";
  if (state.loaded() && state.view == session::kKeyspaceView)
    return state.look.projection == figures::Projection::kPca3d
               ? "drag: turn   Shift+drag: pan   wheel: zoom   right-drag: select   ?: all keys"
               : "drag: pan   wheel: zoom   right-drag: select   double-click: fit   ?: all keys";
  const auto& figure = state.selected().figure(state.view).made.figure;
  if (state.loaded() && figure && !figure->panels.empty() && figures::has_tokens(figure->panels.front()))
    return "drag: pan   wheel: zoom   right-drag: select   double-click: fit   ?: all keys";
  if (state.loaded())
    return "drag: pan   wheel: zoom   right-drag: zoom to a box   double-click: fit   Ctrl+P: find an action "
           "  ?: all keys";
  if (state.figure_file) return "↑ ↓: the figures of this file   ?: all keys";
  return "drop a file: open it   Ctrl+O: choose one   ?: all keys";
}

struct StatusText {
  std::string text;
  ImU32 colour;
};

// The last message, else what the model is at, else what the mouse can do.
StatusText status_text(const PanelContext& context) {
  const auto& state = context.state();
  const Theme& theme = context.theme;
  if (!state.notice.text.empty()) return {state.notice.text, state.notice.error ? theme.error : theme.text};
  if (const auto live = context.session.live_status())
    return {session::describe_live(*live, *state.info),
            live->stage == session::LiveStage::kFailed ? theme.error : theme.dim};
  return {what_can_be_done(state), theme.dim};
}

// Points that lie under others are not counted out: nothing more could be seen if they were drawn.
std::string how_many_are_shown(const PanelContext& context) {
  const auto& state = context.state();
  const auto& points = state.selected().points;
  if (!points || state.selection.block < 0) return {};
  const std::string n_seen = format_count(
      state.selection.block < points->n_blocks() ? points->seen[state.selection.block] : points->n_tokens);
  std::string shown = context.n_keys_shown
                          ? fmt::format("showing {} of {} keys", format_count(*context.n_keys_shown), n_seen)
                          : (n_seen == "1" ? "showing its key" : fmt::format("showing all {} keys", n_seen));
  if (!state.tokens) return shown;
  return fmt::format("{} token{} selected   {}", format_count(static_cast<long long>(state.tokens->size())),
                     state.tokens->size() == 1 ? "" : "s", shown);
}

// At an edge of the main window, whose other windows lie between such bars.
Rect begin_bar(const PanelContext& context, const char* name, ImGuiDir edge, float height) {
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::BeginViewportSideBar(name, ImGui::GetMainViewport(), edge, context.px(height),
                              ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings |
                                  ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  return {at.x, at.y, size.x, size.y};
}

}  // namespace

const Action* draw_top_bar(PanelContext& context, Workspace& workspace) {
  const Rect rect = begin_bar(context, "top", ImGuiDir_Up, kTopHeight);
  float buttons = 0;
  const Action* clicked = draw_buttons(context, rect, buttons);
  buttons = draw_menus(context, workspace, rect, buttons);
  const float left = rect.x + context.px(20);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float detail = draw_name(context, rect, left, buttons - left - context.px(16)) + context.px(14);
  const float room = buttons - detail - context.px(16);
  if (context.state().loaded() && room > context.px(60)) {
    const std::string facts = describe_recording(*context.state().info);
    draw_text(list, context.fonts.small,
              {detail, rect.y + 0.5F * (rect.height - context.fonts.small.size) + context.px(1)},
              context.theme.dim, fit_text(context.fonts.small, facts, room));
  }
  ImGui::End();
  return clicked;
}

void draw_status_bar(PanelContext& context) {
  const Rect rect = begin_bar(context, "status", ImGuiDir_Down, kStatusHeight);
  const auto& state = context.state();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Font& font = context.fonts.small;
  const float y = rect.y + 0.5F * (rect.height - font.size);

  float left_x = rect.x + context.px(20);
  StatusText left = status_text(context);
  if (const auto job = job_in_work(state)) {
    left_x = draw_job(context, *job, rect, left_x);
    left = {describe_job(*job), context.theme.text};
  }
  const std::string right = how_many_are_shown(context);
  const float right_x = rect.right() - context.px(20) - text_size(font, right).x;
  draw_text(list, font, {left_x, y}, left.colour,
            fit_text(font, left.text, right_x - left_x - context.px(20)));
  if (ImGui::IsMouseHoveringRect({left_x, rect.y}, {right_x, rect.bottom()}) && ImGui::IsWindowHovered() &&
      text_size(font, left.text).x > right_x - left_x)
    ImGui::SetTooltip("%s", left.text.c_str());
  draw_text(list, font, {right_x, y}, context.theme.dim, right);
  ImGui::End();
}

}  // namespace keyscope::window
