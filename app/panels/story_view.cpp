#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/scales.hpp"
#include "app/panels/panels.hpp"
#include "base/text.hpp"

namespace keyscope::window {
namespace {

using measures::AttentionPeer;
using measures::ScoreAtBlock;
using measures::TokenStory;

constexpr float kPlotPx = 72;
constexpr std::size_t kPeers = 4;  // shown of each kind; `inspect --token` lists more

float line_height(const PanelContext& context) { return context.fonts.small.size + context.px(4); }

void wrapped(PanelContext& context, const std::string& text) {
  ImGui::PushTextWrapPos(0);
  dim_text(context, text);
  ImGui::PopTextWrapPos();
}

// What the plot of scores spans.
struct ScoreRange {
  figures::Range range = figures::Range::none();
  std::int64_t first = 0, last = 0;

  explicit ScoreRange(const std::vector<ScoreAtBlock>& scores)
      : first(scores.front().block), last(scores.back().block) {
    for (const ScoreAtBlock& at : scores) {
      range.include(at.score);
      if (at.cut) range.include(*at.cut);
    }
    const double margin = range.width() > 0 ? 0.08 * range.width() : 0.5;
    range = {range.low - margin, range.high + margin};
  }
  ImVec2 at(const Rect& plot, std::int64_t block, double value) const {
    const double x =
        last > first ? static_cast<double>(block - first) / static_cast<double>(last - first) : 0.5;
    const double y = (range.high - value) / range.width();
    return {plot.x + static_cast<float>(x) * plot.width, plot.y + static_cast<float>(y) * plot.height};
  }
};

// The block under the cursor, else the selected one, else the last.
const ScoreAtBlock& block_at_cursor(const PanelContext& context, const std::vector<ScoreAtBlock>& scores,
                                    const Rect& plot, bool hovered) {
  std::int64_t block = context.state().selection.block;
  if (hovered && plot.width > 0) {
    const double share = std::clamp((ImGui::GetMousePos().x - plot.x) / plot.width, 0.0F, 1.0F);
    const auto span = static_cast<double>(scores.back().block - scores.front().block);
    block = scores.front().block + std::llround(share * span);
  }
  const auto after = std::ranges::upper_bound(scores, block, {}, &ScoreAtBlock::block);
  return after == scores.begin() ? scores.front() : *(after - 1);
}

// The least and largest score of each pixel column are joined, so that however many blocks there are no peak
// is lost.
void draw_scores(const PanelContext& context, const std::vector<ScoreAtBlock>& scores, const Rect& plot) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ScoreRange range(scores);
  const ImU32 score = context.theme.accent;
  const ImU32 cut = context.theme.light ? IM_COL32(0x9A, 0x65, 0x00, 0xFF) : to_colour(figures::kOrange);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const ImVec2 here = range.at(plot, scores[i].block, scores[i].score);
    if (i > 0)
      list.AddLine(range.at(plot, scores[i - 1].block, scores[i - 1].score), here, score, context.px(1.6F));
    else
      list.AddCircleFilled(here, context.px(2), score);
    const std::optional<double>& cut_at = scores[i].cut;
    if (!cut_at) continue;
    const ImVec2 threshold = range.at(plot, scores[i].block, *cut_at);
    const float half = std::max(context.px(1.5F), 0.3F * plot.width / static_cast<float>(scores.size()));
    list.AddLine({std::max(plot.x, threshold.x - half), threshold.y},
                 {std::min(plot.right(), threshold.x + half), threshold.y}, cut, context.px(1.6F));
  }
}

std::string describe(const ScoreAtBlock& at) {
  const std::string rank =
      fmt::format("block {}: rank {} of {}", at.block, format_count(at.rank), format_count(at.n_rows));
  if (at.forced) return rank + ", kept by rule";
  if (!at.cut) return rank + ", nothing went";
  return fmt::format("{}, {} the cut by {:.3g}", rank, at.score >= *at.cut ? "above" : "below",
                     std::abs(at.score - *at.cut));
}

void draw_score_plot(PanelContext& context, const TokenStory& story) {
  const auto& scores = story.scores.blocks;
  if (scores.empty()) return wrapped(context, story.scores.missing);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float pad = context.px(5);
  const Rect frame{origin.x, origin.y, ImGui::GetContentRegionAvail().x, context.px(kPlotPx)};
  const Rect plot{frame.x + pad, frame.y + pad, frame.width - 2 * pad, frame.height - 2 * pad};
  ImGui::InvisibleButton("scores", {std::max(1.0F, frame.width), frame.height});
  context.widgets["story_scores"] = frame;
  const bool hovered = ImGui::IsItemHovered();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(origin, {frame.right(), frame.bottom()}, context.theme.plot, context.px(4));
  list.AddRect(origin, {frame.right(), frame.bottom()}, context.theme.border, context.px(4));
  const ScoreAtBlock& at = block_at_cursor(context, scores, plot, hovered);
  const float x = ScoreRange(scores).at(plot, at.block, at.score).x;
  list.AddLine({x, frame.y}, {x, frame.bottom()}, with_alpha(context.theme.text, 0.5F));
  draw_scores(context, scores, plot);
  if (ImGui::IsItemClicked()) context.session.set_block(at.block);
  dim_text(context, fit_text(context.fonts.small, describe(at), frame.width));
  if (ImGui::IsItemHovered() || hovered)
    ImGui::SetTooltip("%s\nscore %s%s\nline: the token's score; ticks: the lowest score that was kept",
                      describe(at).c_str(), format_signed(at.score, 5).c_str(),
                      at.cut ? (", cut " + format_signed(*at.cut, 5)).c_str() : "");
}

// A full bar is all of a query's attention, in both lists.
void draw_peer(PanelContext& context, const AttentionPeer& peer) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(ImGui::GetContentRegionAvail().x, line_height(context));
  ImGui::PushID(peer.position);
  const bool clicked = ImGui::InvisibleButton("peer", size);
  ImGui::PopID();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (ImGui::IsItemHovered()) {
    context.hovered = peer.position;
    list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, context.theme.hover, context.px(3));
  }
  if (clicked) context.session.lock(peer.position);
  const float bar = 0.34F * size.x;
  const auto share = static_cast<float>(std::clamp(peer.weight, 0.0, 1.0));
  const float y = at.y + context.px(2);
  list.AddRectFilled({at.x, y + context.px(2)},
                     {at.x + share * bar, y + context.fonts.small.size - context.px(1)},
                     with_alpha(context.theme.accent, 0.3F), context.px(2));
  const std::string value = format_share(peer.weight, 2);
  const float value_w = text_size(context.fonts.small, value).x;
  draw_text(list, context.fonts.small, {at.x + bar - value_w, y}, context.theme.text, value);
  const auto& state = context.state();
  const std::string label =
      figures::token_label(measures::token_bytes(*state.info, state.selection.run, peer.position));
  const std::string position = format_count(peer.position);
  const float left = at.x + bar + context.px(8);
  const float position_w = text_size(context.fonts.small, position).x;
  draw_text(list, context.fonts.mono, {left, at.y + context.px(1)}, context.theme.text,
            fit_text(context.fonts.mono, label, at.x + size.x - left - position_w - context.px(6)));
  draw_text(list, context.fonts.small, {at.x + size.x - position_w, y}, context.theme.dim, position);
}

void draw_peers(PanelContext& context, const char* title, const std::vector<AttentionPeer>& peers,
                const std::string& missing) {
  dim_text(context, title);
  if (!missing.empty()) return wrapped(context, missing);
  if (peers.empty()) return wrapped(context, "no query");
  ImGui::PushID(title);
  for (std::size_t i = 0; i < std::min(kPeers, peers.size()); ++i) draw_peer(context, peers[i]);
  ImGui::PopID();
}

void draw_afterwards(PanelContext& context, const TokenStory& story) {
  dim_text(context, "After its eviction, with the full cache");
  if (!story.afterwards) return wrapped(context, story.afterwards_missing);
  const auto& after = *story.afterwards;
  if (after.n_queries == 0) return wrapped(context, "it went with the last block: no query came after it");
  std::string text = fmt::format("it would still have received {:.3g}", after.received);
  if (after.received_in_all > 0)
    text += fmt::format(", {} of all it gets", format_share(after.received / after.received_in_all, 1));
  push_font(context.fonts.small);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(fmt::format("{}, from {} queries", text, format_count(after.n_queries)).c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopFont();
}

}  // namespace

float story_height(const PanelContext& context) {
  const float peers = 2 * (1 + static_cast<float>(kPeers)) * line_height(context);
  return context.fonts.bold.size + context.px(kPlotPx) + 5 * line_height(context) + peers + context.px(30);
}

void draw_story(PanelContext& context, const Rect& rect) {
  const auto& made = context.state().story;
  ImGui::SetCursorScreenPos({rect.x, rect.y});
  ImGui::BeginChild("story", {rect.width, rect.height});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(2)});
  heading(context, "Its story");
  if (made.story && !made.story->scores.blocks.empty()) {
    ImGui::SameLine(0, context.px(8));
    dim_text(context, fit_text(context.fonts.small, "score by block, and the cut (ticks)",
                               ImGui::GetContentRegionAvail().x));
  }
  context.widgets["story"] = rect;
  if (made.story) {
    const TokenStory& story = *made.story;
    draw_score_plot(context, story);
    ImGui::Dummy({0, context.px(3)});
    draw_peers(context, "It attended to", story.attention.attended_to, story.attention.missing);
    ImGui::Dummy({0, context.px(3)});
    if (story.attention.missing.empty())
      draw_peers(context, "Most attention came from", story.attention.attended_by, {});
    ImGui::Dummy({0, context.px(3)});
    draw_afterwards(context, story);
  } else {
    wrapped(context, context.state().making_story ? "reading …" : made.error);
  }
  ImGui::PopStyleVar();
  ImGui::EndChild();
}

}  // namespace keyscope::window
