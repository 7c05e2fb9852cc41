#include "app/panels/timeline_panel.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/session/live.hpp"
#include "base/text.hpp"

namespace keyscope::window {
namespace {

constexpr float kButtonPx = 26, kLeastBarsPx = 16, kLeastBarPx = 3;
constexpr float kMarginPx = 8;  // beside the slider, so that its handle ends with the strip

std::string tokens_of(const session::SessionState& state, std::int64_t block) {
  const auto& run = state.run();
  const std::int64_t first = block == 0 ? 0 : recording::tokens_seen(run, block - 1);
  const std::int64_t last = recording::tokens_seen(run, block) - 1;
  const std::string kind = block >= run.plan.n_prompt_blocks ? ", generated" : "";
  if (first == last) return fmt::format("token {}{}", format_count(first), kind);
  return fmt::format("tokens {} to {}{}", format_count(first), format_count(last), kind);
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

void draw_follow(PanelContext& context, const Rect& rect, float width) {
  ImGui::SetCursorScreenPos({rect.right() - width - context.px(10), rect.y + context.px(6)});
  bool following = context.state().following;
  push_font(context.fonts.small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {context.px(3), context.px(2)});
  if (tick_box(context, "follow", &following))
    following ? context.session.show_last_block()
              : context.session.set_block(context.state().selection.block);
  ImGui::PopStyleVar();
  ImGui::PopFont();
}

}  // namespace

float TimelinePanel::Track::x_of(std::int64_t block) const {
  if (n_blocks <= 1) return left;
  return left + (right - left) * static_cast<float>(block) / static_cast<float>(n_blocks - 1);
}

std::int64_t TimelinePanel::Track::block_at(float x) const {
  if (n_blocks <= 1) return 0;
  const double share = std::clamp((x - left) / std::max(1.0F, right - left), 0.0F, 1.0F);
  return std::llround(share * static_cast<double>(n_blocks - 1));
}

float TimelinePanel::Track::spacing() const {
  return (right - left) / std::max(1.0F, static_cast<float>(n_blocks - 1));
}

// Counts once per head that was read, and once per width of the window.
void TimelinePanel::count(const PanelContext& context, const Track& track) {
  const auto& state = context.state();
  auto points = state.selected().points;
  const bool known = points && points->head == state.head();
  const auto n_most = static_cast<std::int64_t>((track.right - track.left) / context.px(kLeastBarPx));
  if (!known) points = nullptr;
  if (points == counted_ && n_most == n_bars_most_) return;
  counted_ = points;
  n_bars_most_ = n_most;
  evicted_.clear();
  if (known) evicted_ = figures::evictions_per_block(points->trace.evicted_at, points->n_blocks());
  most_evicted_ = evicted_.empty() ? 0 : *std::ranges::max_element(evicted_);
  bars_ = figures::block_bars(evicted_, state.run().plan.n_prompt_blocks, n_most);
}

std::string TimelinePanel::describe(const PanelContext& context, std::int64_t block) const {
  std::string text = tokens_of(context.state(), block);
  const auto at = static_cast<std::size_t>(block);
  if (at < evicted_.size()) text += fmt::format("  ·  {} evicted", format_count(evicted_[at]));
  return text;
}

// The least that one of a bar's blocks evicted is solid, from there to the most is a tint. What is still to
// come is dim.
void TimelinePanel::draw_bars(PanelContext& context, const Track& track) const {
  if (most_evicted_ == 0) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 colour = context.theme.light ? IM_COL32(0xC8, 0x84, 0x00, 0xFF) : to_colour(figures::kOrange);
  const float base = track.y - context.px(12), room = base - track.top;
  const float half = 0.5F * std::clamp(0.72F * track.spacing(), context.px(1), context.px(28));
  const float margin = context.px(kMarginPx);  // the first and the last bar end with the strip
  const auto height = [&](std::int32_t n) {
    const float h = room * static_cast<float>(n) / static_cast<float>(most_evicted_);
    return n > 0 ? std::max(context.px(1.5F), h) : 0;
  };
  for (const figures::BlockBar& bar : bars_) {
    const float strength = bar.first > context.state().selection.block ? 0.4F : 1;
    const float low = std::max(track.left - margin, track.x_of(bar.first) - half);
    const float high = std::min(track.right + margin, track.x_of(bar.last) + half);
    list.AddRectFilled({low, base - height(bar.most)}, {high, base}, with_alpha(colour, 0.45F * strength));
    list.AddRectFilled({low, base - height(bar.least)}, {high, base}, with_alpha(colour, strength));
  }
}

void TimelinePanel::draw_slider(PanelContext& context, const Rect& rect, bool with_bars) {
  const auto& state = context.state();
  const float y = rect.bottom() - 0.5F * context.px(kButtonPx);
  const Track track{rect.x + context.px(kMarginPx), rect.right() - context.px(kMarginPx), y,
                    with_bars ? rect.y : y, state.run().blocks_done};
  count(context, track);
  ImGui::SetCursorScreenPos({rect.x, rect.y});
  ImGui::InvisibleButton("slider", {std::max(1.0F, rect.width), rect.height});
  const float track_top = rect.bottom() - context.px(kButtonPx);
  context.widgets["slider"] = {track.left, track_top, track.right - track.left, rect.bottom() - track_top};
  if (with_bars)
    context.widgets["evictions"] = {track.left, rect.y, track.right - track.left, track_top - rect.y};
  if (ImGui::IsItemActive()) context.session.set_block(track.block_at(ImGui::GetMousePos().x));
  if (ImGui::IsItemHovered() && ImGui::GetIO().MouseWheel != 0)
    context.session.step_block(ImGui::GetIO().MouseWheel > 0 ? 1 : -1);
  if (with_bars) draw_bars(context, track);

  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float half = context.px(2.5F);
  const float x = track.x_of(std::max<std::int64_t>(0, state.selection.block));
  list.AddRectFilled({track.left, y - half}, {track.right, y + half}, context.theme.missing, half);
  list.AddRectFilled({track.left, y - half}, {x, y + half}, context.theme.accent, half);
  if (track.spacing() >= context.px(7))
    for (std::int64_t b = 0; b < track.n_blocks; ++b)
      list.AddLine({track.x_of(b), y + context.px(8)}, {track.x_of(b), y + context.px(11)},
                   context.theme.dim);
  draw_generated(context, track);
  list.AddCircleFilled({x, y}, context.px(8), context.theme.text);
  list.AddCircleFilled({x, y}, context.px(5), context.theme.accent);
  if (ImGui::IsItemHovered() && !ImGui::IsItemActive() && track.n_blocks > 0) {
    const std::int64_t block = track.block_at(ImGui::GetMousePos().x);
    ImGui::SetTooltip("block %lld\n%s", static_cast<long long>(block), describe(context, block).c_str());
  }
}

// Where the prompt ends, and the blocks of generated tokens after it.
void TimelinePanel::draw_generated(PanelContext& context, const Track& track) const {
  const std::int64_t n_prompt = context.state().run().plan.n_prompt_blocks;
  if (n_prompt >= track.n_blocks) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float end = 0.5F * (track.x_of(n_prompt - 1) + track.x_of(n_prompt));
  const float top = std::min(track.top, track.y - context.px(8));
  list.AddRectFilled({end, top}, {track.right + context.px(6), track.y + context.px(12)},
                     with_alpha(context.theme.accent, 0.10F), context.px(3));
  list.AddLine({end, top}, {end, track.y + context.px(12)}, context.theme.text, context.px(1.5F));
  const std::string name = "generated";
  const float width = text_size(context.fonts.small, name).x;
  if (track.top >= track.y || track.right - end <= width + context.px(6)) return;
  // On a ground of its own: the bars of evictions stand behind it.
  const float pad = context.px(3);
  list.AddRectFilled({track.right - width - pad, track.top},
                     {track.right + pad, track.top + context.fonts.small.size + pad},
                     with_alpha(context.theme.panel, 0.85F), pad);
  draw_text(list, context.fonts.small, {track.right - width, track.top}, context.theme.dim, name);
}

void TimelinePanel::draw(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  heading(context, fmt::format("Block {}", std::max<std::int64_t>(0, state.selection.block)).c_str());
  ImGui::SameLine();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + context.px(1));
  const bool live = context.session.live_status() && context.session.live_status()->going_on();
  const float follow_w = live ? context.px(76) : 0;
  const std::string about = state.selection.block < 0
                                ? std::string("no block yet")
                                : fmt::format("of {}  ·  {}", state.run().blocks_done - 1,
                                              describe(context, state.selection.block));
  const bool goes_by_it = session::shows_blocks(state.view);
  const std::string says = goes_by_it ? about : about + "  ·  the figure in front is of all blocks";
  dim_text(context, fit_text(context.fonts.small, says, ImGui::GetContentRegionAvail().x - follow_w));
  const float below = ImGui::GetCursorScreenPos().y;
  if (live) draw_follow(context, rect, follow_w);
  const float button = context.px(kButtonPx);
  const float y = rect.bottom() - button - context.px(8);
  ImGui::SetCursorScreenPos({rect.x + context.px(12), y});
  draw_play_button(context, button);
  const bool with_bars = y - below >= context.px(kLeastBarsPx);
  const float top = with_bars ? below : y;
  draw_slider(context, {rect.x + context.px(48), top, rect.width - context.px(60), y + button - top},
              with_bars);
}

}  // namespace keyscope::window
