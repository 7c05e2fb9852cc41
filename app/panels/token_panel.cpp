#include "app/panels/token_panel.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/selection_list.hpp"
#include "app/panels/story_view.hpp"
#include "app/panels/text_strip.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::window {
namespace {

using session::TokenFacts;

// A label at the left, its value at the right.
void fact(PanelContext& context, const char* label, const std::string& value, ImU32 colour,
          const char* meaning = nullptr) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImFont* font = context.fonts.small;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  draw_text(list, font, at, context.theme.dim, label);
  const float room = width - text_size(font, label).x - context.px(10);
  const std::string shown = fit_text(font, value, room);
  draw_text(list, font, {at.x + width - text_size(font, shown).x, at.y}, colour, shown);
  ImGui::Dummy({width, font->FontSize + context.px(1)});
  if (meaning != nullptr && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", meaning);
}

void draw_fate(PanelContext& context, const TokenFacts& facts) {
  const ImU32 kept = context.theme.light ? to_colour(figures::kBlue) : to_colour(figures::kSkyBlue);
  const ImU32 gone = context.theme.light ? IM_COL32(0x9A, 0x65, 0x00, 0xFF) : to_colour(figures::kOrange);
  if (!facts.retained)
    fact(context, "now", fmt::format("evicted at block {}", *facts.evicted_at), gone);
  else if (facts.evicted_at)
    fact(context, "now", fmt::format("retained; evicted at block {}", *facts.evicted_at), kept);
  else
    fact(context, "now", "retained to the end", kept);
  fact(context, "came with block", std::to_string(facts.arrived), context.theme.text);
  if (facts.evicted_margin)
    fact(context, "evicted by a margin of", fmt::format("{:.4g}", *facts.evicted_margin), context.theme.text,
         "the lowest score that was kept, minus this token's");
}

// The rows of facts without a token, so that the panel keeps its shape.
void draw_no_facts(PanelContext& context) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float box_h = context.fonts.mono->FontSize + context.px(12);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + width, at.y + box_h}, context.theme.hover, context.px(4));
  draw_text(list, context.fonts.small, {at.x + context.px(8), at.y + context.px(6)}, context.theme.dim,
            fit_text(context.fonts.small, "point at a key; a click holds it", width - context.px(16)));
  ImGui::Dummy({width, box_h});
  for (const char* label :
       {"position", "id", "score", "attention received", "per query", "now", "came with block"})
    fact(context, label, "–", context.theme.dim);
}

void draw_facts(PanelContext& context, const TokenFacts& facts) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImFont* font = context.fonts.mono;
  const float box_h = font->FontSize + context.px(12);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + width, at.y + box_h}, context.theme.hover, context.px(4));
  const std::string text = facts.text.empty() ? std::string("(text not recorded)") : facts.text;
  draw_text(list, font, {at.x + context.px(8), at.y + context.px(6)}, context.theme.text,
            fit_text(font, text, width - context.px(16)));
  ImGui::Dummy({width, box_h});
  const std::string none = "–";
  const ImU32 ink = context.theme.text;
  fact(context, "position", figures::format_count(facts.position), ink);
  fact(context, "id", facts.id >= 0 ? std::to_string(facts.id) : none, ink);
  fact(context, "score", facts.score ? figures::format_signed(*facts.score, 4) : none, ink,
       "KeyDiff's: −cos(key, mean of the keys seen by this block)");
  fact(context, "attention received",
       facts.attention_received ? fmt::format("{:.4g}", *facts.attention_received) : none, ink,
       "sum of weights over the prompt's queries, mean over the group");
  fact(context, "per query",
       facts.attention_per_query ? fmt::format("{:.3g}", *facts.attention_per_query) : none, ink,
       "attention received, divided by the queries that could see the token");
  draw_fate(context, facts);
}

// The chosen measure, unless it is of two runs: those are the map's alone.
std::size_t shown_measure(const session::SessionState& state) {
  return session::measure_choices()[state.measure].of_two_runs() ? 0 : state.measure;
}

constexpr std::size_t kHeadMeasures = 8;  // shown of a head; the map has all of them

// The measures of the selected head that are asked for most, and the chosen one, in the accent's colour.
void draw_measures(PanelContext& context) {
  const auto& state = context.state();
  heading(context, "Head");
  ImGui::SameLine();
  const bool whole = state.run().n_tokens >= state.info->n_prompt();
  dim_text(context, whole ? "at the end of the prompt" : "so far");
  const auto found = state.measured.find(state.head());
  const auto choices = session::measure_choices();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(3)});
  for (std::size_t row = 0; row < kHeadMeasures; ++row) {
    const bool last = row + 1 == kHeadMeasures;
    const std::size_t i = last ? std::max(row, shown_measure(state)) : row;
    const auto value = found == state.measured.end()
                           ? std::nullopt
                           : figures::head_value(choices[i], found->second.measures, nullptr);
    const std::string text = found == state.measured.end() ? "…" : session::format_measure(choices[i], value);
    fact(context, session::measure_label(choices[i]).c_str(), text,
         i == state.measure ? context.theme.accent : context.theme.text, choices[i].meaning);
  }
  ImGui::PopStyleVar();
}

float measures_height(const PanelContext& context) {
  const auto rows = static_cast<float>(kHeadMeasures);
  return context.fonts.bold->FontSize + rows * (context.fonts.small->FontSize + context.px(4)) +
         context.px(8);
}

void draw_separator(PanelContext& context) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddLine({at.x, at.y + context.px(3)},
                                      {at.x + ImGui::GetContentRegionAvail().x, at.y + context.px(3)},
                                      context.theme.border);
  ImGui::Dummy({0, context.px(7)});
}

void draw_text_part(PanelContext& context, float end) {
  draw_separator(context);
  const auto& selected = context.state().tokens;
  heading(context, selected ? "Selected" : "In the text");
  if (selected) {
    ImGui::SameLine();
    dim_text(context, fmt::format("{} tokens; Esc drops them",
                                  figures::format_count(static_cast<long long>(selected->size()))));
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const Rect rest{at.x, at.y, ImGui::GetContentRegionAvail().x, end - at.y};
  selected ? draw_selection_list(context, rest) : draw_text_strip(context, rest);
  ImGui::SetCursorScreenPos(at);
}

// What has no room is left out: the text first, then the head's measures, which the map has as well. The
// story of a held token takes the place of the measures, and scrolls.
void draw_below_facts(PanelContext& context, float end) {
  const auto& state = context.state();
  const bool has_story = state.locked && (state.story.story || state.telling || !state.story.error.empty());
  const float top = ImGui::GetCursorScreenPos().y;
  const float wanted = (has_story ? story_height(context) : measures_height(context)) + context.px(16);
  const bool has_below = has_story || end - top >= wanted;
  const float text_end = has_below ? std::max(top, end - wanted) : end;
  const float least_text = context.px(12) + context.fonts.bold->FontSize + 3 * context.fonts.mono->FontSize;
  const bool has_text = text_end - top >= least_text;
  if (has_text) draw_text_part(context, text_end);
  if (!has_below) return;
  const float below = has_text ? text_end : top;
  ImGui::SetCursorScreenPos({ImGui::GetCursorScreenPos().x, below});
  draw_separator(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  if (has_story)
    draw_story(context, {at.x, at.y, ImGui::GetContentRegionAvail().x, end - at.y});
  else
    draw_measures(context);
}

}  // namespace

void draw_token_panel(PanelContext& context, const Rect& rect) {
  begin_panel("token", rect);
  const auto& state = context.state();
  const auto token = state.token();
  heading(context, "Token");
  if (state.locked) {
    ImGui::SameLine();
    dim_text(context, state.hovered && state.hovered != state.locked ? "hovered; another is held"
                                                                     : "held; Esc releases");
  }
  const auto& points = state.points;
  const bool known = token && points && state.selection.block >= 0 && *token < points->n_tokens &&
                     state.selection.block < points->n_blocks();
  const float facts_top = ImGui::GetCursorPosY();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(3)});
  if (known)
    draw_facts(context, session::token_facts(*state.info, *points, state.selection.block, *token));
  else
    draw_no_facts(context);
  ImGui::PopStyleVar();
  // A fixed height, so that nothing moves when a token comes under the cursor.
  ImGui::SetCursorPosY(facts_top + context.px(34) + 8 * (context.fonts.small->FontSize + context.px(4)));
  draw_below_facts(context, rect.bottom() - context.px(8));
  end_panel();
}

}  // namespace keyscope::window
