#include "app/panels/timeline_panel.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::window {
namespace {

// The track's place and its blocks.
struct Track {
  float left = 0, right = 0, y = 0;
  std::int64_t n_blocks = 0;

  float x_of(std::int64_t block) const {
    if (n_blocks <= 1) return left;
    return left + (right - left) * static_cast<float>(block) / static_cast<float>(n_blocks - 1);
  }
  std::int64_t block_at(float x) const {
    if (n_blocks <= 1) return 0;
    const double share = std::clamp((x - left) / std::max(1.0F, right - left), 0.0F, 1.0F);
    return std::llround(share * static_cast<double>(n_blocks - 1));
  }
};

std::string describe_block(const session::SessionState& state) {
  const auto& run = state.run();
  const std::int64_t block = state.selection.block;
  if (block < 0) return "no block yet";
  const std::int64_t first = block == 0 ? 0 : recording::tokens_seen(run, block - 1);
  const std::int64_t last = recording::tokens_seen(run, block) - 1;
  const std::string kind = block >= run.plan.n_prompt_blocks ? ", generated" : "";
  const std::string tokens = first == last ? fmt::format("token {}", figures::format_count(first))
                                           : fmt::format("tokens {} to {}", figures::format_count(first),
                                                         figures::format_count(last));
  return fmt::format("of {}  ·  {}{}", run.blocks_done - 1, tokens, kind);
}

// A triangle, or two bars while playing.
void draw_play_button(PanelContext& context, float size) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  if (ImGui::InvisibleButton("play", {size, size})) context.session.toggle_play();
  context.widgets["play"] = {at.x, at.y, size, size};
  const bool hovered = ImGui::IsItemHovered();
  if (hovered) ImGui::SetTooltip(context.state().playing ? "Stop (Space)" : "Play the blocks (Space)");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 centre(at.x + 0.5F * size, at.y + 0.5F * size);
  list.AddCircleFilled(centre, 0.5F * size, hovered ? context.theme.selected : context.theme.hover);
  const float r = 0.22F * size;
  if (context.state().playing) {
    for (const float dx : {-0.75F * r, 0.35F * r})
      list.AddRectFilled({centre.x + dx, centre.y - r}, {centre.x + dx + 0.5F * r, centre.y + r},
                         context.theme.text);
  } else {
    list.AddTriangleFilled({centre.x - 0.7F * r, centre.y - r}, {centre.x + 1.1F * r, centre.y},
                           {centre.x - 0.7F * r, centre.y + r}, context.theme.text);
  }
}

void draw_track(PanelContext& context, const Track& track) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto& state = context.state();
  const float half = context.px(2.5F);
  const float x = track.x_of(std::max<std::int64_t>(0, state.selection.block));
  list.AddRectFilled({track.left, track.y - half}, {track.right, track.y + half}, context.theme.missing,
                     half);
  list.AddRectFilled({track.left, track.y - half}, {x, track.y + half}, context.theme.accent, half);
  const float spacing = (track.right - track.left) / std::max(1.0F, static_cast<float>(track.n_blocks - 1));
  if (spacing >= context.px(7))
    for (std::int64_t b = 0; b < track.n_blocks; ++b)
      list.AddLine({track.x_of(b), track.y + context.px(8)}, {track.x_of(b), track.y + context.px(11)},
                   context.theme.dim);
  // Where the prompt ends and generated tokens begin.
  const std::int64_t n_prompt = state.run().plan.n_prompt_blocks;
  if (n_prompt < track.n_blocks) {
    const float end = track.x_of(n_prompt - 1);
    list.AddLine({end, track.y - context.px(8)}, {end, track.y + context.px(12)}, context.theme.text,
                 context.px(1.5F));
  }
  list.AddCircleFilled({x, track.y}, context.px(8), context.theme.text);
  list.AddCircleFilled({x, track.y}, context.px(5), context.theme.accent);
}

void draw_slider(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  Track track{rect.x + context.px(8), rect.right() - context.px(8), rect.y + 0.5F * rect.h,
              state.run().blocks_done};
  ImGui::SetCursorScreenPos({rect.x, rect.y});
  ImGui::InvisibleButton("slider", {std::max(1.0F, rect.w), rect.h});
  context.widgets["slider"] = {track.left, rect.y, track.right - track.left, rect.h};
  if (ImGui::IsItemActive()) context.session.set_block(track.block_at(ImGui::GetMousePos().x));
  if (ImGui::IsItemHovered() && ImGui::GetIO().MouseWheel != 0)
    context.session.step_block(ImGui::GetIO().MouseWheel > 0 ? 1 : -1);
  draw_track(context, track);
  if (ImGui::IsItemHovered() && !ImGui::IsItemActive() && track.n_blocks > 0)
    ImGui::SetTooltip("block %lld", static_cast<long long>(track.block_at(ImGui::GetMousePos().x)));
}

}  // namespace

void draw_timeline_panel(PanelContext& context, const Rect& rect) {
  begin_panel("timeline", rect);
  const auto& state = context.state();
  heading(context, fmt::format("Block {}", std::max<std::int64_t>(0, state.selection.block)).c_str());
  ImGui::SameLine();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + context.px(1));
  const bool live = context.session.live_status() && context.session.live_status()->going_on();
  const float follow_w = live ? context.px(76) : 0;
  dim_text(context,
           fit_text(context.fonts.small, describe_block(state), ImGui::GetContentRegionAvail().x - follow_w));
  if (live) {
    ImGui::SetCursorScreenPos({rect.right() - follow_w - context.px(10), rect.y + context.px(6)});
    bool following = state.following;
    ImGui::PushFont(context.fonts.small);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {context.px(3), context.px(2)});
    if (ImGui::Checkbox("follow", &following))
      following ? context.session.show_last_block() : context.session.set_block(state.selection.block);
    ImGui::PopStyleVar();
    ImGui::PopFont();
  }
  const float button = context.px(26);
  const float y = rect.bottom() - button - context.px(8);
  ImGui::SetCursorScreenPos({rect.x + context.px(12), y});
  draw_play_button(context, button);
  draw_slider(context, {rect.x + context.px(48), y, rect.w - context.px(60), button});
  end_panel();
}

}  // namespace keyscope::window
