#include "app/panels/empty_state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "app/panels/live_controls.hpp"

namespace keyscope::window {
namespace {

void centred(PanelContext& context, ImFont* font, ImU32 colour, const std::string& text, float& y,
             const Rect& rect) {
  ImGui::PushFont(font);
  const float wrap = std::min(context.px(720), rect.w - context.px(80));
  const ImVec2 size = ImGui::CalcTextSize(text.c_str(), nullptr, false, wrap);
  ImGui::SetCursorScreenPos({rect.x + 0.5F * (rect.w - size.x), y});
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
  return "Drop a recording here";
}

}  // namespace

const Action* draw_empty_state(PanelContext& context, const Rect& rect) {
  begin_panel("empty", {rect.x + context.px(8), rect.y + context.px(8), rect.w - context.px(16),
                        rect.h - context.px(16)});
  bool failed = false;
  const std::string title = headline(context, failed);
  float y = rect.y + 0.34F * rect.h;
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
                   : "or open one with Ctrl+O, or run a model and watch its cache block by block.",
            y, rect);
    const float width = context.px(150);
    ImGui::SetCursorScreenPos({rect.x + 0.5F * rect.w - width - context.px(6), y + context.px(8)});
    if (ImGui::Button("Open a recording", {width, context.px(34)})) clicked = &action("open");
    ImGui::SameLine(0, context.px(12));
    if (ImGui::Button("Run a model", {width, context.px(34)})) clicked = &action("live");
    y += context.px(60);
    centred(context, context.fonts.small, context.theme.dim,
            "A recording is made by:  keyscope capture --model DIR --prompt-file TEXT --policy none --policy "
            "keydiff --budget 256 --out run.h5",
            y, rect);
  } else if (ImGui::SetCursorScreenPos({rect.x + 0.5F * rect.w - context.px(60), y}),
             ImGui::Button("Cancel", {context.px(120), context.px(34)})) {
    context.session.cancel_live();
  }
  end_panel();
  return clicked;
}

}  // namespace keyscope::window
