#include "app/panels/text_view.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/labels.hpp"
#include "app/session/tokens.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr float kTextLinePx = 20;
constexpr float kSearchPx = 200;
constexpr float kUnselectedAlpha = 0.35F;
constexpr float kClassAlpha = 0.45F;  // of the ground of what both runs keep, or one

std::int64_t n_tokens(const session::SessionState& state) {
  return std::max(state.info->n_prompt(), state.run().n_tokens);
}

ImU32 shade_colour(const Theme& theme, float strength) {
  // The upper half counts: what stands out is what is looked for.
  const float alpha = 0.75F * strength * strength * strength;
  return to_colour(theme.light ? figures::kSkyBlue : figures::kBlue, alpha);
}

}  // namespace

void TextView::find() { focus_search_ = true; }

void TextView::update_layout(const PanelContext& context, float width) {
  const auto& state = context.state();
  if (state.recording.get() != layout_recording_) {
    if (!flow_chosen_) flows_ = figures::is_hard_wrapped(state.info->prompt.text);
    layout_width_ = -1;
  }
  const std::int64_t n = n_tokens(state);
  const int run = state.run().generated.size() > 0 ? state.selection.run : -1;
  const bool same_text = state.recording.get() == layout_recording_ && width == layout_width_ &&
                         (run == layout_run_ || layout_tokens_ <= state.info->n_prompt());
  if (same_text && run == layout_run_ && n == layout_tokens_) return;
  const bool grows = same_text && n >= layout_tokens_;
  std::vector<std::string> labels;
  std::vector<bool> breaks;
  for (std::int64_t token = grows ? layout_tokens_ : 0; token < n; ++token) {
    const std::string bytes = measures::token_bytes(*state.info, state.selection.run, token);
    labels.push_back(fit_text(context.fonts.mono, figures::text_label(bytes), width));
    const std::string before =
        token > 0 ? measures::token_bytes(*state.info, state.selection.run, token - 1) : std::string();
    breaks.push_back(figures::breaks_line(bytes, before, flows_));
  }
  const auto measure = [&](const std::string& text) { return text_size(context.fonts.mono, text).x; };
  if (grows)
    layout_.append(labels, breaks, measure);
  else
    layout_ = TextLayout(labels, breaks, width, measure);
  layout_recording_ = state.recording.get();
  layout_run_ = run;
  layout_tokens_ = n;
  layout_width_ = width;
  found_.clear();
}

void TextView::update_shades(const PanelContext& context) {
  const auto& state = context.state();
  const auto points = state.selected().points;
  if (points == shaded_points_ && state.selection.block == shaded_block_ && shade_ == shaded_by_) return;
  shaded_points_ = points;
  shaded_block_ = state.selection.block;
  shaded_by_ = shade_;
  strengths_.clear();
  if (!points || shaded_block_ < 0 || shaded_block_ >= points->n_blocks()) return;
  strengths_ = session::shade_strengths(
      session::token_values(*state.info, *points, shaded_block_, session::shade_choices()[shade_].shade));
}

void TextView::update_matches(const PanelContext& context) {
  if (wanted_ == found_) return;
  found_ = wanted_;
  matches_ = measures::find_text(*context.state().info, context.state().selection.run, wanted_);
  match_ = -1;
}

// Forward from what is in sight at first, then from match to match, round the end.
void TextView::go_to_match(std::int64_t by, PanelContext& context) {
  if (matches_.empty()) return;
  const auto n = static_cast<std::int64_t>(matches_.size());
  if (match_ < 0) {
    const std::int64_t from = layout_.first_of(first_line_);
    const auto next = std::ranges::lower_bound(matches_, from, {}, &measures::TextMatch::first);
    match_ = next == matches_.end() ? 0 : next - matches_.begin();
  } else {
    match_ = (match_ + by + n) % n;
  }
  const std::int64_t token = matches_[match_].first;
  scroll_to(token);
  held_ = token;
  context.session.lock(token);
}

bool TextView::is_found(std::int64_t token) const {
  const auto next = std::ranges::upper_bound(matches_, token, {}, &measures::TextMatch::first);
  return next != matches_.begin() && std::prev(next)->last >= token;
}

void TextView::draw_search(PanelContext& context) {
  ImGui::SetNextItemWidth(std::min(context.px(kSearchPx), ImGui::GetContentRegionAvail().x));
  if (focus_search_) ImGui::SetKeyboardFocusHere();
  focus_search_ = false;
  const bool entered = text_field(context, "##find", "Find (Ctrl+F)", &wanted_,
                                  ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  note_widget(context, "find");
  update_matches(context);
  if (entered) {
    go_to_match(ImGui::GetIO().KeyShift ? -1 : 1, context);
    focus_search_ = true;  // Enter goes on to the next
  }
  std::string about;
  if (const auto& selected = context.state().tokens)
    about = fmt::format("{} selected", format_count(static_cast<long long>(selected->size())));
  if (!wanted_.empty()) {
    const std::string n_found = format_count(static_cast<long long>(matches_.size()));
    about += about.empty() ? "" : "  ";
    about += matches_.empty() ? "not found"
             : match_ < 0     ? fmt::format("{} found; Enter goes to the next", n_found)
                              : fmt::format("{} of {}", format_count(match_ + 1), n_found);
  }
  if (about.empty()) return;
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  dim_text(context, fit_text(context.fonts.small, about, ImGui::GetContentRegionAvail().x));
}

void TextView::draw_tools(PanelContext& context) {
  const auto choices = session::shade_choices();
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x, gap = context.px(12);
  ImGui::AlignTextToFramePadding();
  dim_text(context, "shaded by");
  ImGui::SameLine();
  const float box = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x +
                    text_size(context.fonts.regular, "Flow").x;
  ImGui::SetNextItemWidth(
      std::clamp(ImGui::GetContentRegionAvail().x - gap - box, context.px(60), context.px(170)));
  if (ImGui::BeginCombo("##shade", choices[shade_].label)) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (ImGui::Selectable(choices[i].label, i == shade_)) shade_ = i;
      if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", choices[i].meaning);
    }
    ImGui::EndCombo();
  } else if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip("%s; by rank among the tokens seen", choices[shade_].meaning);
  }
  note_widget(context, "shade");
  ImGui::SameLine(0, gap);
  if (tick_box(context, "Flow", &flows_)) {
    flow_chosen_ = true;
    layout_width_ = -1;
  }
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("Fill the lines: single line breaks of the text are passed over, blank lines stay");
  note_widget(context, "flow");
  // On a line of its own where it would be cut off.
  if (right - ImGui::GetItemRectMax().x >= gap + context.px(kSearchPx)) ImGui::SameLine(0, gap);
  draw_search(context);
}

void TextView::draw_token(const PanelContext& context, std::int64_t token, float x, float y) const {
  const auto& state = context.state();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Font& font = context.fonts.mono;
  const float width = layout_.place(token).width, line = context.px(kTextLinePx);
  const auto at = static_cast<std::size_t>(token);
  const bool seen = at < strengths_.size();
  const auto& points = state.selected().points;
  const bool known = seen && at < points->trace.evicted_at.size();
  const std::int32_t gone = known ? points->trace.evicted_at[at] : -1;
  const bool evicted = gone >= 0 && gone <= state.selection.block;
  const bool focused = state.token() == token;
  const float top = y - context.px(1), bottom = y + line - context.px(2);
  if (seen && strengths_[at] > 0)
    list.AddRectFilled({x, top}, {x + width, bottom}, shade_colour(context.theme, strengths_[at]));
  if (is_found(token))
    list.AddRectFilled({x, bottom - context.px(2)}, {x + width, bottom}, to_colour(figures::kYellow));
  if (const auto colour = class_colour(state, token); colour && seen)
    list.AddRectFilled({x, top}, {x + width, bottom}, to_colour(*colour, kClassAlpha));
  // What is kept stands out; what is gone can still be read.
  ImU32 ink = seen ? context.theme.text : with_alpha(context.theme.dim, 0.45F);
  if (evicted) ink = context.theme.dim;
  if (state.tokens && !figures::contains(*state.tokens, token)) ink = with_alpha(ink, kUnselectedAlpha);
  if (focused) {
    list.AddRectFilled({x - 1, top}, {x + width + 1, bottom}, context.theme.accent, context.px(2));
    ink = context.theme.on_accent;
  }
  draw_text(list, font, {x, y}, ink, layout_.label(token));
  if (evicted && !focused)
    list.AddRectFilled({x, bottom - context.px(2)}, {x + width, bottom - context.px(0.5F)},
                       to_colour(figures::kOrange, 0.8F));
}

// Of what both runs keep, where the text is shaded by that.
std::optional<figures::Colour> TextView::class_colour(const session::SessionState& state,
                                                      std::int64_t token) const {
  const auto& made = state.difference;
  const bool shaded = session::shade_choices()[shade_].shade == session::TokenShade::kKept &&
                      made.difference && made.key.head == state.head() &&
                      token < std::ssize(made.difference->kept);
  if (!shaded) return std::nullopt;
  switch (made.difference->kept[token]) {
    case measures::KeptBy::kBoth:
      return figures::kBlue;
    case measures::KeptBy::kOnlyA:
      return figures::policy_look(state.run().plan.policy).colour;
    case measures::KeptBy::kOnlyB:
      return figures::policy_look(state.info->runs[made.key.other].plan.policy).colour;
    case measures::KeptBy::kNeither:
      break;
  }
  return std::nullopt;
}

// What shades, lines and paleness mean.
void TextView::draw_legend(PanelContext& context) const {
  const auto& state = context.state();
  const session::ShadeChoice& choice = session::shade_choices()[shade_];
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Font& font = context.fonts.small;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float right = at.x + ImGui::GetContentRegionAvail().x, height = font.size + context.px(4);
  float x = at.x;
  const auto words = [&](const std::string& text, ImU32 colour) {
    const std::string fitted = fit_text(font, text, right - x);
    draw_text(list, font, {x, at.y}, colour, fitted);
    x += text_size(font, fitted).x + context.px(14);
  };
  const auto block = [&](ImU32 colour) {
    list.AddRectFilled({x, at.y + context.px(1)}, {x + context.px(12), at.y + font.size}, colour);
    x += context.px(17);
  };
  if (choice.shade == session::TokenShade::kKept && state.other_run() >= 0) {
    const std::string &a = state.run().plan.name, &b = state.info->runs[state.other_run()].plan.name;
    block(to_colour(figures::kBlue, kClassAlpha)), words("both", context.theme.text);
    block(to_colour(figures::policy_look(state.run().plan.policy).colour, kClassAlpha)),
        words("only " + a, context.theme.text);
    block(
        to_colour(figures::policy_look(state.info->runs[state.other_run()].plan.policy).colour, kClassAlpha));
    words("only " + b, context.theme.text);
  } else if (choice.shade != session::TokenShade::kNone) {
    for (const float strength : {0.4F, 0.6F, 0.8F, 1.0F}) {
      list.AddRectFilled({x, at.y + context.px(1)}, {x + context.px(12), at.y + font.size},
                         shade_colour(context.theme, strength));
      x += context.px(12);
    }
    x += context.px(5);
    words("more by rank", context.theme.text);
  }
  list.AddRectFilled({x, at.y + font.size - context.px(2)}, {x + context.px(16), at.y + font.size},
                     to_colour(figures::kOrange));
  x += context.px(20);
  words("evicted", context.theme.dim);
  words("still to come", with_alpha(context.theme.dim, 0.6F));
  ImGui::Dummy({right - at.x, height});
}

// Only lines in sight are looked at: the length of the text costs nothing.
void TextView::draw_lines(PanelContext& context, float height) {
  const float line = context.px(kTextLinePx);
  ImGui::BeginChild("lines", {0, height}, 0, ImGuiWindowFlags_AlwaysVerticalScrollbar);
  const float width = std::max(context.px(60), ImGui::GetContentRegionAvail().x - context.px(4));
  update_layout(context, std::floor(width));
  if (scroll_to_ && *scroll_to_ < layout_.n_tokens()) {
    const float y = static_cast<float>(layout_.place(*scroll_to_).line) * line;
    const float from = ImGui::GetScrollY();
    if (y < from || y + line > from + height) ImGui::SetScrollY(std::max(0.0F, y - 0.4F * height));
    scroll_to_.reset();
    context.wants_frames = true;
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();  // of the first line, above the window when scrolled
  const ImVec2 corner = ImGui::GetWindowPos();
  first_line_ = std::max<std::int64_t>(0, static_cast<std::int64_t>((corner.y - origin.y) / line));
  last_line_ =
      std::min(layout_.n_lines() - 1, static_cast<std::int64_t>((corner.y + height - origin.y) / line));
  const auto y_of = [&](std::int64_t row) { return origin.y + static_cast<float>(row) * line; };
  for (std::int64_t row = first_line_; row <= last_line_; ++row)
    for (std::int64_t token = layout_.first_of(row); token < layout_.first_of(row + 1); ++token)
      draw_token(context, token, origin.x + layout_.place(token).x, y_of(row));
  ImGui::Dummy({1, static_cast<float>(layout_.n_lines()) * line});
  context.widgets["plot"] = {corner.x, corner.y, width, height};

  const ImVec2 mouse = ImGui::GetMousePos();
  const auto row = static_cast<std::int64_t>(std::floor((mouse.y - origin.y) / line));
  const auto token = ImGui::IsWindowHovered() ? layout_.token_at(row, mouse.x - origin.x) : std::nullopt;
  const bool seen = token && static_cast<std::size_t>(*token) < strengths_.size();
  if (seen) {
    const auto& state = context.state();
    context.hovered = *token;
    if (const auto& points = state.selected().points; points && *token < points->n_tokens)
      draw_token_tooltip(context, session::token_facts(*state.info, *points, shaded_block_, *token),
                         context.widgets["plot"]);
  }
  if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    held_ = seen ? token : std::nullopt;  // it is in sight: nothing is to be scrolled
    context.session.lock(held_);
  }
  ImGui::EndChild();
}

void TextView::draw(PanelContext& context, const Rect& rect) {
  draw_tools(context);
  context.session.compare_tokens(session::shade_choices()[shade_].shade == session::TokenShade::kKept);
  draw_legend(context);
  update_shades(context);
  if (context.state().locked != held_) {  // by another panel
    held_ = context.state().locked;
    if (held_) scroll_to(*held_);
  }
  draw_lines(context, rect.bottom() - ImGui::GetCursorScreenPos().y);
}

nlohmann::ordered_json TextView::describe() const {
  return {{"n_tokens", layout_.n_tokens()},
          {"n_lines", layout_.n_lines()},
          {"first_line", first_line_},
          {"last_line", last_line_},
          {"shade", session::shade_choices()[shade_].id},
          {"n_found", matches_.size()},
          {"match", match_}};
}

TextLayout::TextLayout(const std::vector<std::string>& labels, const std::vector<bool>& breaks, float width,
                       const Measure& measure)
    : width_(width) {
  append(labels, breaks, measure);
}

void TextLayout::put(std::string label, const Measure& measure, bool new_line) {
  if (new_line) {
    line_begin_.push_back(n_tokens());
    if (label.size() > 1 && label.front() == ' ') label.erase(0, 1);
  }
  const float x = new_line || places_.empty() ? 0 : places_.back().x + places_.back().width;
  places_.push_back({x, measure(label), static_cast<std::int32_t>(line_begin_.size() - 1)});
  labels_.push_back(std::move(label));
}

// The first token of the word that the last token stands in, in the same line.
std::int64_t TextLayout::word_begin() const {
  std::int64_t token = n_tokens() - 1;
  while (token > line_begin_.back() && labels_[token][0] != ' ') --token;
  return token;
}

void TextLayout::append(const std::vector<std::string>& labels, const std::vector<bool>& breaks,
                        const Measure& measure) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string& label = labels[i];
    const float width = measure(label), end = ends_line_ ? 0 : places_.back().x + places_.back().width;
    const bool fits = ends_line_ || end + width <= width_;
    // The beginning of a word that has no room goes with its rest.
    const bool continues = !fits && !label.empty() && label.front() != ' ';
    const std::int64_t begin = continues ? word_begin() : n_tokens();
    std::vector<std::string> word;
    if (continues && place(begin).x > 0.5F * width_ && end - place(begin).x + width <= width_)
      word.assign(std::make_move_iterator(labels_.begin() + begin), std::make_move_iterator(labels_.end()));
    labels_.resize(labels_.size() - word.size());
    places_.resize(labels_.size());
    bool new_line = ends_line_ || !fits;
    for (std::string& part : word) {
      put(std::move(part), measure, new_line);
      new_line = false;
    }
    put(label, measure, new_line);
    ends_line_ = breaks[i];
  }
}

std::int64_t TextLayout::first_of(std::int64_t line) const {
  return line < n_lines() ? line_begin_[line] : n_tokens();
}

std::optional<std::int64_t> TextLayout::token_at(std::int64_t line, float x) const {
  if (line < 0 || line >= n_lines()) return std::nullopt;
  for (std::int64_t token = first_of(line); token < first_of(line + 1); ++token)
    if (x >= place(token).x && x < place(token).x + place(token).width) return token;
  return std::nullopt;
}

std::set<char32_t> TextGlyphs::take(const session::SessionState& state, const Has& has) {
  std::set<char32_t> missing;
  if (!state.loaded()) return missing;
  if (state.recording.get() != recording_) {
    recording_ = state.recording.get();
    run_ = state.selection.run;
    n_read_ = 0;
  }
  if (state.selection.run != run_) {  // the prompt is the same
    run_ = state.selection.run;
    n_read_ = std::min(n_read_, state.info->n_prompt());
  }
  const std::int64_t n = std::max(state.info->n_prompt(), state.run().n_tokens);
  for (; n_read_ < n; ++n_read_) {
    const std::string label = figures::text_label(measures::token_bytes(*state.info, run_, n_read_));
    for (std::size_t at = 0; at < label.size();) {
      const char32_t character = next_code_point(label, at);
      if (found_.size() < kMostGlyphs && !has(character) && found_.insert(character).second)
        missing.insert(character);
    }
  }
  return missing;
}

void draw_token_tooltip(PanelContext& context, const session::TokenFacts& facts, const Rect& plot) {
  const std::string text = facts.text.empty() ? "(text not recorded)" : facts.text;
  const std::string fate =
      facts.retained ? std::string("retained") : fmt::format("evicted at block {}", *facts.evicted_at);
  std::vector<std::string> lines{fmt::format("position {}, {}", format_count(facts.position), fate)};
  if (facts.score) lines.push_back("KeyDiff score " + format_signed(*facts.score, 4));
  if (facts.attention_received)
    lines.push_back(fmt::format("attention received {:.4g}", *facts.attention_received));

  const ImGuiStyle& style = ImGui::GetStyle();
  ImVec2 size = text_size(context.fonts.mono, text);
  for (const std::string& line : lines) {
    const ImVec2 added = text_size(context.fonts.small, line);
    size = {std::max(size.x, added.x), size.y + style.ItemSpacing.y + added.y};
  }
  const ImVec2 mouse = ImGui::GetMousePos();
  const Pixel at = place_tooltip({mouse.x, mouse.y},
                                 {size.x + 2 * style.WindowPadding.x, size.y + 2 * style.WindowPadding.y},
                                 plot, context.px(16));
  ImGui::SetNextWindowPos({at.x, at.y}, ImGuiCond_Always);
  ImGui::BeginTooltip();
  push_font(context.fonts.mono);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopFont();
  for (const std::string& line : lines) dim_text(context, line);
  const ImVec2 corner = ImGui::GetWindowPos();
  const ImVec2 drawn = ImGui::GetWindowSize();
  context.widgets["tooltip"] = {corner.x, corner.y, drawn.x, drawn.y};
  ImGui::EndTooltip();
}

}  // namespace keyscope::window
