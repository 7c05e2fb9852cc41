#include "app/panels/live_controls.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace keyscope::window {
namespace {

using session::LiveStage;
using session::LiveStatus;

std::string duration(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
  return s >= 60 ? fmt::format("{} min {:02} s", s / 60, s % 60) : fmt::format("{} s", s);
}

double share_done(const LiveStatus& status) {
  const auto total = static_cast<double>(std::max<std::int64_t>(1, status.progress.tokens_total));
  return std::clamp(static_cast<double>(status.progress.tokens_done) / total, 0.0, 1.0);
}

void draw_bar(PanelContext& context, const LiveStatus& status) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = context.px(6);
  list.AddRectFilled(at, {at.x + width, at.y + height}, context.theme.missing, context.px(3));
  const float done = width * static_cast<float>(share_done(status));
  if (done > 1) list.AddRectFilled(at, {at.x + done, at.y + height}, context.theme.accent, context.px(3));
  ImGui::Dummy({width, height});
}

bool button(PanelContext& context, const char* label, const char* name, float width) {
  const bool clicked = ImGui::Button(label, {width, 0});
  const ImVec2 low = ImGui::GetItemRectMin();
  const ImVec2 high = ImGui::GetItemRectMax();
  context.widgets[name] = {low.x, low.y, high.x - low.x, high.y - low.y};
  return clicked;
}

}  // namespace

std::string describe_live(const LiveStatus& status) {
  const auto& progress = status.progress;
  switch (status.stage) {
    case LiveStage::kStarting:
      return "loading the model";
    case LiveStage::kStopping:
      return "stopping after this block";
    case LiveStage::kDone:
      return "all runs are done";
    case LiveStage::kCancelled:
      return "cancelled; what was recorded is kept";
    case LiveStage::kFailed:
      return "failed: " + status.message;
    case LiveStage::kRunning:
    case LiveStage::kPaused:
      break;
  }
  std::string text = fmt::format("{}, block {} of {}", progress.run, progress.block, progress.n_blocks);
  if (status.stage == LiveStage::kPaused) return "paused: " + text;
  if (progress.elapsed_seconds > 0 && progress.tokens_done > 0) {
    const double rate = static_cast<double>(progress.tokens_done) / progress.elapsed_seconds;
    text += fmt::format(", {:.0f} tokens/s, {} left", rate,
                        duration(static_cast<double>(progress.tokens_total - progress.tokens_done) / rate));
  }
  return text;
}

float live_controls_height(const PanelContext& context) {
  return context.session.live_status() ? context.px(88) : 0;
}

void draw_live_controls(PanelContext& context) {
  const auto status = context.session.live_status();
  if (!status) return;
  ImGui::Dummy({0, context.px(2)});
  draw_bar(context, *status);
  const float room = ImGui::GetContentRegionAvail().x;
  const std::string text = describe_live(*status);
  dim_text(context, fit_text(context.fonts.small, text, room));
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text.c_str());
  if (!status->going_on()) return;
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  const float width = (room - 2 * gap) / 3;
  const bool paused = status->stage == LiveStage::kPaused;
  if (button(context, paused ? "Run" : "Pause", "pause", width))
    paused ? context.session.resume_live() : context.session.pause_live();
  ImGui::SameLine();
  if (button(context, "Step", "step", width)) context.session.step_live();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Run one block, then pause");
  ImGui::SameLine();
  if (button(context, "Cancel", "cancel", width)) context.session.cancel_live();
}

}  // namespace keyscope::window
