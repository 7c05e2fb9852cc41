#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analysis/similarity.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/labels.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/panels.hpp"
#include "app/panels/text_view.hpp"
#include "app/session/tokens.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr float kPositionPx = 58;

// What became of a token by the block that is shown.
enum class Fate { kToCome, kRetained, kEvicted };

Fate fate_of(const session::SessionState& state, std::int64_t token) {
  const auto points = state.selected().points;
  const std::int64_t block = state.selection.block;
  const bool known = points && block >= 0 && block < points->n_blocks();
  if (!known || token >= points->seen[block]) return Fate::kToCome;
  const std::int32_t gone = points->trace.evicted_at[token];
  return gone >= 0 && gone <= block ? Fate::kEvicted : Fate::kRetained;
}

// "cos 0.91": of the token's key and the held one's; empty where none is held.
std::string likeness_to_held(const session::SessionState& state, std::int64_t token) {
  const auto& points = state.selected().points;
  if (!state.locked || !points || std::max(token, *state.locked) >= points->n_tokens) return {};
  const double cosine = analysis::cosine(points->keys.row(token).transpose().cast<double>(),
                                         points->keys.row(*state.locked).transpose().cast<double>());
  return std::isfinite(cosine) ? fmt::format("cos {:.3f}", cosine) : std::string();
}

void draw_row(PanelContext& context, std::int64_t token, float height) {
  const auto& state = context.state();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::PushID(static_cast<int>(token));
  const bool clicked = ImGui::InvisibleButton("row", {width, height});
  ImGui::PopID();
  const Fate fate = fate_of(state, token);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (ImGui::IsItemHovered() && fate != Fate::kToCome) context.hovered = token;
  if (state.token() == token)
    list.AddRectFilled(at, {at.x + width, at.y + height}, context.theme.selected, context.px(3));
  const std::string position = format_count(token);
  const Font &small = context.fonts.small, &mono = context.fonts.mono;
  const float text_x = at.x + context.px(kPositionPx);
  draw_text(list, small, {text_x - context.px(10) - text_size(small, position).x, at.y + context.px(2)},
            context.theme.dim, position);
  const std::string likeness = token == state.locked ? std::string("held") : likeness_to_held(state, token);
  const float right = at.x + width - text_size(small, likeness).x;
  draw_text(list, small, {right, at.y + context.px(2)}, context.theme.dim, likeness);
  const std::string text =
      fit_text(mono, figures::token_label(measures::token_bytes(*state.info, state.selection.run, token)),
               right - context.px(6) - text_x);
  ImU32 ink = fate == Fate::kToCome ? with_alpha(context.theme.dim, 0.45F) : context.theme.text;
  if (fate == Fate::kEvicted) ink = context.theme.dim;
  draw_text(list, mono, {text_x, at.y + context.px(1)}, ink, text);
  if (fate == Fate::kEvicted)
    list.AddRectFilled({text_x, at.y + mono.size + context.px(1)},
                       {text_x + text_size(mono, text).x, at.y + mono.size + context.px(2.5F)},
                       to_colour(figures::kOrange, 0.8F));
  if (clicked && fate != Fate::kToCome) context.session.lock(token);
}

// The selected tokens with their texts, those that were evicted struck through; pointing at one hovers it, a
// click holds it. Draws nothing without a selection.
void draw_selection_list(PanelContext& context, const Rect& rect) {
  const auto tokens = context.state().tokens;
  if (!tokens) return;
  ImGui::SetCursorScreenPos({rect.x, rect.y});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  ImGui::BeginChild("selected", {rect.width, rect.height});
  const float height = context.fonts.mono.size + context.px(4);
  ImGuiListClipper rows;  // only those in sight are looked at
  rows.Begin(static_cast<int>(tokens->size()), height);
  while (rows.Step())
    for (int row = rows.DisplayStart; row < rows.DisplayEnd; ++row) draw_row(context, (*tokens)[row], height);
  ImGui::EndChild();
  ImGui::PopStyleVar();
  context.widgets["selected"] = rect;
}

constexpr std::int64_t kBefore = 160;  // tokens laid out around the focus
constexpr std::int64_t kAfter = 240;

// Tokens one after another, from `first` on.
TextLayout lay_out(const PanelContext& context, std::int64_t first, std::int64_t last, float width) {
  const auto& state = context.state();
  std::vector<std::string> labels;
  std::vector<bool> breaks;
  for (std::int64_t position = first; position < last; ++position) {
    const std::string bytes = measures::token_bytes(*state.info, state.selection.run, position);
    labels.push_back(fit_text(context.fonts.mono, figures::text_label(bytes), width));
    breaks.push_back(bytes.find('\n') != std::string::npos);
  }
  return {labels, breaks, width,
          [&](const std::string& text) { return text_size(context.fonts.mono, text).x; }};
}

void draw_word(const PanelContext& context, std::int64_t token, const std::string& label, float width,
               ImVec2 at, std::int64_t n_seen) {
  const auto& state = context.state();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Font& font = context.fonts.mono;
  const float height = font.size;
  const std::int32_t gone = state.selected().points->trace.evicted_at[token];
  const bool evicted = gone >= 0 && gone <= state.selection.block;
  const bool focused = state.token() == token;
  const bool to_come = token >= n_seen;
  ImU32 colour = context.theme.text;
  if (to_come) colour = with_alpha(context.theme.dim, 0.45F);
  if (!to_come && evicted) colour = context.theme.dim;
  if (focused) {
    list.AddRectFilled({at.x - 1, at.y - 1}, {at.x + width + 1, at.y + height + context.px(2)},
                       context.theme.accent, context.px(2));
    colour = context.theme.on_accent;
  }
  draw_text(list, font, at, colour, label);
  if (!to_come && evicted && !focused)
    list.AddRectFilled({at.x, at.y + height + context.px(1)},
                       {at.x + width, at.y + height + context.px(2.5F)}, to_colour(figures::kOrange, 0.8F));
}

// The text around the hovered or held token, else the end of what was read by the chosen block: evicted
// tokens struck out, those to come dim. Pointing at a token hovers it everywhere, a click holds it.
void draw_text_strip(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  const auto points = state.selected().points;
  if (!points || state.selection.block < 0 || state.selection.block >= points->n_blocks()) return;
  const std::int64_t n_seen = points->seen[state.selection.block];
  // While the cursor is in the text, the text stands still.
  const bool inside =
      ImGui::IsMouseHoveringRect({rect.x, rect.y}, {rect.right(), rect.bottom()}) && ImGui::IsWindowHovered();
  const std::int64_t end = std::max<std::int64_t>(0, n_seen - 1);
  const std::int64_t focus =
      std::min(inside ? state.locked.value_or(end) : state.token().value_or(end), points->n_tokens - 1);
  const std::int64_t first = std::max<std::int64_t>(0, focus - kBefore);
  const std::int64_t last = std::min(points->n_tokens, focus + kAfter);
  const TextLayout layout = lay_out(context, first, last, rect.width);
  const float line_h = context.fonts.mono.size + context.px(4);
  const auto n_lines = std::max<std::int64_t>(1, static_cast<std::int64_t>(rect.height / line_h));
  const std::int64_t top = std::clamp<std::int64_t>(layout.place(focus - first).line - n_lines / 2, 0,
                                                    std::max<std::int64_t>(0, layout.n_lines() - n_lines));

  ImGui::GetWindowDrawList()->PushClipRect({rect.x - 2, rect.y}, {rect.right() + 2, rect.bottom()}, true);
  const ImVec2 mouse = ImGui::GetMousePos();
  for (std::int64_t i = layout.first_of(top); i < layout.first_of(std::min(top + n_lines, layout.n_lines()));
       ++i) {
    const auto& place = layout.place(i);
    const ImVec2 at(rect.x + place.x, rect.y + static_cast<float>(place.line - top) * line_h);
    draw_word(context, first + i, layout.label(i), place.width, at, n_seen);
    const bool under = inside && mouse.x >= at.x && mouse.x < at.x + place.width && mouse.y >= at.y &&
                       mouse.y < at.y + line_h;
    if (!under || first + i >= n_seen) continue;
    context.hovered = first + i;
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.session.lock(first + i);
  }
  ImGui::GetWindowDrawList()->PopClipRect();
  context.widgets["text"] = rect;
}

using session::TokenFacts;

// A label at the left, its value at the right.
void fact(PanelContext& context, const char* label, const std::string& value, ImU32 colour,
          const char* meaning = nullptr) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const Font& font = context.fonts.small;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  draw_text(list, font, at, context.theme.dim, label);
  const float room = width - text_size(font, label).x - context.px(10);
  const std::string shown = fit_text(font, value, room);
  draw_text(list, font, {at.x + width - text_size(font, shown).x, at.y}, colour, shown);
  ImGui::Dummy({width, font.size + context.px(1)});
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("%s%sclick: copy", meaning != nullptr ? meaning : "", meaning != nullptr ? "\n" : "");
  if (!ImGui::IsItemClicked()) return;
  const std::string text = fmt::format("{} {}", label, value);
  ImGui::SetClipboardText(text.c_str());
  context.session.notify({"Copied: " + text, false});
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
  const float box_h = context.fonts.mono.size + context.px(12);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + width, at.y + box_h}, context.theme.hover, context.px(4));
  draw_text(list, context.fonts.small, {at.x + context.px(8), at.y + context.px(6)}, context.theme.dim,
            fit_text(context.fonts.small,
                     session::shows_tokens(context.state().view) ? "point at a key; a click holds it"
                                                                 : "this figure is of heads, not of tokens",
                     width - context.px(16)));
  ImGui::Dummy({width, box_h});
  for (const char* label :
       {"position", "id", "KeyDiff score", "attention received", "per query", "now", "came with block"})
    fact(context, label, "–", context.theme.dim);
}

void draw_facts(PanelContext& context, const TokenFacts& facts) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const Font& font = context.fonts.mono;
  const float box_h = font.size + context.px(12);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + width, at.y + box_h}, context.theme.hover, context.px(4));
  const std::string text = facts.text.empty() ? std::string("(text not recorded)") : facts.text;
  draw_text(list, font, {at.x + context.px(8), at.y + context.px(6)}, context.theme.text,
            fit_text(font, text, width - context.px(16)));
  ImGui::Dummy({width, box_h});
  const std::string none = "–";
  const ImU32 ink = context.theme.text;
  fact(context, "position", format_count(facts.position), ink);
  fact(context, "id", facts.id >= 0 ? std::to_string(facts.id) : none, ink);
  fact(context, "KeyDiff score", facts.score ? format_signed(*facts.score, 4) : none, ink,
       "−cos(key, mean of the keys seen by this block)");
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
void draw_token_measures(PanelContext& context) {
  const auto& state = context.state();
  const auto choices = session::measure_choices();
  const auto measured = [&](std::size_t choice, int run) {
    return session::find_measured(state.measured, {run, state.selection.layer, state.selection.kv_head},
                                  choices[choice]);
  };
  heading(context, "Head");
  ImGui::SameLine();
  const auto* own = measured(shown_measure(state), state.selection.run);
  const std::int64_t n_tokens = own != nullptr ? own->n_tokens : state.run().n_tokens;
  if (n_tokens >= state.info->n_prompt())
    dim_text(context, "at the end of the prompt");
  else
    dim_text(context, fmt::format("of the first {} tokens", format_count(n_tokens)));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(3)});
  for (std::size_t row = 0; row < kHeadMeasures; ++row) {
    const bool last = row + 1 == kHeadMeasures;
    const std::size_t i = last ? std::max(row, shown_measure(state)) : row;
    const auto [run, biased] = session::run_of_map(*state.info, {i, -1}, state.selection.run);
    const session::MeasuredHead* found = measured(i, run);
    const auto value =
        found == nullptr ? std::nullopt : figures::head_value(choices[i], found->measures, nullptr);
    std::string label = session::measure_label(choices[i]);
    if (biased)
      label += ", biased";
    else if (run != state.selection.run)
      label += " of " + state.info->runs[run].plan.name;
    const std::string text = found == nullptr ? "…" : session::format_measure(choices[i], value);
    fact(context, label.c_str(), text, i == state.measure ? context.theme.accent : context.theme.text,
         biased ? measures::kBiasedByEviction.data() : choices[i].meaning);
  }
  ImGui::PopStyleVar();
}

float measures_height(const PanelContext& context) {
  const auto rows = static_cast<float>(kHeadMeasures);
  return context.fonts.bold.size + rows * (context.fonts.small.size + context.px(4)) + context.px(8);
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
                                  format_count(static_cast<long long>(selected->size()))));
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const Rect rest{at.x, at.y, ImGui::GetContentRegionAvail().x, end - at.y};
  selected ? draw_selection_list(context, rest) : draw_text_strip(context, rest);
}

// What has no room is left out: the text first, then the head's measures, which the map has as well. The
// story of a held token takes the place of the measures, and scrolls.
void draw_below_facts(PanelContext& context, float top, float end) {
  const auto& state = context.state();
  const bool has_story =
      state.locked && (state.story.story || state.making_story || !state.story.error.empty());
  const float wanted = (has_story ? story_height(context) : measures_height(context)) + context.px(16);
  const bool has_below = has_story || end - top >= wanted;
  const float text_end = has_below ? std::max(top, end - wanted) : end;
  const float least_text = context.px(12) + context.fonts.bold.size + 3 * context.fonts.mono.size;
  const bool has_text = text_end - top >= least_text;
  const float left = ImGui::GetCursorScreenPos().x;
  if (has_text) {
    ImGui::SetCursorScreenPos({left, top});
    draw_text_part(context, text_end);
  }
  if (!has_below) return;
  ImGui::SetCursorScreenPos({left, has_text ? text_end : top});
  draw_separator(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  if (has_story)
    draw_story(context, {at.x, at.y, ImGui::GetContentRegionAvail().x, end - at.y});
  else
    draw_token_measures(context);
}

}  // namespace

void draw_token_panel(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  const auto token = state.token();
  dim_text(context, !state.locked                                    ? "pointed at"
                    : state.hovered && state.hovered != state.locked ? "pointed at; another is held"
                                                                     : "held; Esc releases");
  const auto points = state.selected().points;
  const bool known = token && points && state.selection.block >= 0 && *token < points->n_tokens &&
                     state.selection.block < points->n_blocks();
  const float facts_top = ImGui::GetCursorScreenPos().y;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(3)});
  if (known)
    draw_facts(context, session::token_facts(*state.info, *points, state.selection.block, *token));
  else
    draw_no_facts(context);
  ImGui::PopStyleVar();
  // A fixed height, so that nothing moves when a token comes under the cursor.
  const float facts = context.px(34) + 8 * (context.fonts.small.size + context.px(4));
  draw_below_facts(context, facts_top + facts, rect.bottom() - context.px(8));
}

}  // namespace keyscope::window
