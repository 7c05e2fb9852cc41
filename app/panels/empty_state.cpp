#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "app/panels/panels.hpp"
#include "app/session/live.hpp"

namespace keyscope::window {
namespace {

void centred(PanelContext& context, const Font& font, ImU32 colour, const std::string& text, float& y,
             const Rect& rect) {
  push_font(font);
  const float wrap = std::min(context.px(720), rect.width - context.px(80));
  const ImVec2 size = ImGui::CalcTextSize(text.c_str(), nullptr, false, wrap);
  ImGui::SetCursorScreenPos({rect.x + 0.5F * (rect.width - size.x), y});
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + wrap);
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopStyleColor();
  ImGui::PopTextWrapPos();
  ImGui::PopFont();
  y += size.y + context.px(12);
}

// The sentence that says where things stand, and whether it is a failure.
std::string headline(const PanelContext& context, bool& failed) {
  const auto& state = context.state();
  const auto live = context.session.live_status();
  failed = true;
  if (!state.open_error.empty()) return "This could not be opened";
  if (live && live->stage == session::LiveStage::kFailed) return "The model could not be run";
  failed = false;
  if (!state.opening.empty()) return "Opening …";
  if (live && live->going_on()) return "Loading the model …";
  if (live) return "The run was cancelled before its first block";
  return "Drop a recording, a model or a prompt here";
}

constexpr float kRecentHeight = 26;

// One file; true if it was clicked.
bool draw_recent(PanelContext& context, const session::RecentFile& file, const Rect& row) {
  ImGui::SetCursorScreenPos({row.x, row.y});
  ImGui::PushID(file.path.c_str());
  ImGui::BeginDisabled(file.missing);
  const bool clicked = ImGui::InvisibleButton("recent", {row.width, row.height});
  ImGui::EndDisabled();
  ImGui::PopID();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (ImGui::IsItemHovered())
    list.AddRectFilled({row.x, row.y}, {row.right(), row.bottom()}, context.theme.hover, context.px(4));
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) ImGui::SetTooltip("%s", file.path.c_str());
  const std::filesystem::path path(file.path);
  const Font& font = context.fonts.regular;
  const Font& small = context.fonts.small;
  const std::string where = file.missing ? "is gone" : path.parent_path().string();
  const std::string name = fit_text(font, path.filename().string(), 0.6F * row.width);
  const float left = row.x + context.px(10);
  const ImU32 dim = file.missing ? with_alpha(context.theme.dim, 0.6F) : context.theme.dim;
  draw_text(list, font, {left, row.y + 0.5F * (row.height - font.size)},
            file.missing ? dim : context.theme.text, name);
  const float room = row.width - context.px(36) - text_size(font, name).x;
  const std::string shown = fit_text(small, where, room);
  draw_text(
      list, small,
      {row.right() - context.px(10) - text_size(small, shown).x, row.y + 0.5F * (row.height - small.size)},
      dim, shown);
  return clicked;
}

void draw_recent_files(PanelContext& context, const std::vector<session::RecentFile>& recent, float y,
                       const Rect& rect) {
  const float width = std::min(context.px(560), rect.width - context.px(80));
  const float left = rect.x + 0.5F * (rect.width - width);
  const float row = context.px(kRecentHeight);
  const float room = rect.bottom() - context.px(24) - y - row;
  const auto n = std::min(recent.size(), static_cast<std::size_t>(std::max(0.0F, room / row)));
  if (n == 0) return;
  ImGui::SetCursorScreenPos({left + context.px(10), y});
  dim_text(context, n == recent.size() ? std::string("Opened last")
                                       : fmt::format("Opened last: showing {} of {}", n, recent.size()));
  for (std::size_t i = 0; i < n; ++i) {
    const Rect place{left, y + row * static_cast<float>(i + 1) - context.px(4), width, row};
    context.widgets[fmt::format("recent_{}", i)] = place;
    if (draw_recent(context, recent[i], place)) context.session.open(recent[i].path);
  }
}

}  // namespace

const Action* draw_empty_state(PanelContext& context, const Rect& rect,
                               const std::vector<session::RecentFile>& recent) {
  begin_panel("empty", {rect.x + context.px(8), rect.y + context.px(8), rect.width - context.px(16),
                        rect.height - context.px(16)});
  bool failed = false;
  const std::string title = headline(context, failed);
  // The same place whether or not there are recent files: they are found a moment later, and what is about to
  // be clicked must not move.
  float y = rect.y + 0.2F * rect.height;
  centred(context, context.fonts.title, context.theme.text, title, y, rect);
  const auto live = context.session.live_status();
  std::string reason = context.state().open_error;
  if (reason.empty() && live) reason = live->message;
  if (failed) centred(context, context.fonts.regular, context.theme.error, reason, y, rect);
  if (!context.state().opening.empty())
    centred(context, context.fonts.regular, context.theme.dim, context.state().opening, y, rect);

  const Action* clicked = nullptr;
  if (!(live && live->going_on())) {
    centred(context, context.fonts.regular, context.theme.dim,
            failed ? "Choose another one, or run a model:"
                   : "or see the demo: what four policies keep of one text, block by block, and what they "
                     "still answer.",
            y, rect);
    const ImVec2 size(context.px(150), context.px(34));
    const float gap = context.px(12);
    ImGui::SetCursorScreenPos({rect.x + 0.5F * rect.width - 1.5F * size.x - gap, y + context.px(8)});
    if (ImGui::Button("Show the demo", size)) clicked = &action("demo");
    note_widget(context, "empty_demo");
    ImGui::SameLine(0, gap);
    if (ImGui::Button("Open a recording", size)) clicked = &action("open");
    ImGui::SameLine(0, gap);
    if (ImGui::Button("Run a model", size)) clicked = &action("live");
    y += context.px(60);
    centred(context, context.fonts.small, context.theme.dim,
            "A recording is made by:  keyscope capture --model DIR --prompt-file TEXT --policy none --policy "
            "keydiff --budget 256 --out run.h5",
            y, rect);
    draw_recent_files(context, recent, y + context.px(12), rect);
  } else if (ImGui::SetCursorScreenPos({rect.x + 0.5F * rect.width - context.px(60), y}),
             ImGui::Button("Cancel", {context.px(120), context.px(34)})) {
    context.session.live()->cancel();
  }
  end_panel();
  return clicked;
}

}  // namespace keyscope::window
