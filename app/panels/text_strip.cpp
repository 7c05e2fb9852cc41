#include "app/panels/text_strip.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/figures/token_label.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::window {
namespace {

constexpr std::int64_t kBefore = 160;  // tokens laid out around the focus
constexpr std::int64_t kAfter = 240;

struct Word {
  std::int64_t position = 0;
  std::string text;
  float x = 0, width = 0;
  int line = 0;
};

// Words one after another, broken where the width or a line break ends a line.
std::vector<Word> lay_out(const PanelContext& context, std::int64_t first, std::int64_t last, float width) {
  const auto& state = context.state();
  std::vector<Word> words;
  float x = 0;
  int line = 0;
  for (std::int64_t position = first; position < last; ++position) {
    const std::string bytes = session::token_bytes(*state.info, state.selection.run, position);
    Word word{position, fit_text(context.fonts.mono, figures::text_label(bytes), width), 0, 0, 0};
    word.width = text_size(context.fonts.mono, word.text).x;
    if (x > 0 && x + word.width > width) {
      x = 0;
      ++line;
    }
    if (x == 0 && word.text.size() > 1 && word.text.front() == ' ') {  // lines do not begin with a space
      word.text.erase(0, 1);
      word.width = text_size(context.fonts.mono, word.text).x;
    }
    word.x = x;
    word.line = line;
    x += word.width;
    const bool breaks = bytes.find('\n') != std::string::npos;
    words.push_back(std::move(word));
    if (!breaks) continue;
    x = 0;
    ++line;
  }
  return words;
}

int line_of(const std::vector<Word>& words, std::int64_t position) {
  const auto found = std::ranges::find(words, position, &Word::position);
  return found == words.end() ? 0 : found->line;
}

void draw_word(PanelContext& context, const Word& word, ImVec2 at, std::int64_t n_seen) {
  const auto& state = context.state();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImFont* font = context.fonts.mono;
  const float height = font->FontSize;
  const std::int32_t gone = state.points->trace.evicted_at[static_cast<std::size_t>(word.position)];
  const bool evicted = gone >= 0 && gone <= state.selection.block;
  const bool focused = state.token() == word.position;
  const bool to_come = word.position >= n_seen;
  ImU32 colour = context.theme.text;
  if (to_come) colour = with_alpha(context.theme.dim, 0.45F);
  if (!to_come && evicted)
    colour = context.theme.light ? IM_COL32(0x9A, 0x65, 0x00, 0xFF) : to_colour(figures::kOrange, 0.8F);
  if (focused) {
    list.AddRectFilled({at.x - 1, at.y - 1}, {at.x + word.width + 1, at.y + height + context.px(2)},
                       context.theme.accent, context.px(2));
    colour = context.theme.on_accent;
  }
  draw_text(list, font, at, colour, word.text);
  if (!to_come && evicted)
    list.AddLine({at.x, at.y + 0.56F * height}, {at.x + word.width, at.y + 0.56F * height}, colour);
}

}  // namespace

void draw_text_strip(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  const auto& points = state.points;
  if (!points || state.selection.block < 0 || state.selection.block >= points->n_blocks()) return;
  const std::int64_t n_seen = points->seen[static_cast<std::size_t>(state.selection.block)];
  // While the cursor is in the text, the text stands still.
  const bool inside =
      ImGui::IsMouseHoveringRect({rect.x, rect.y}, {rect.right(), rect.bottom()}) && ImGui::IsWindowHovered();
  const std::int64_t end = std::max<std::int64_t>(0, n_seen - 1);
  const std::int64_t focus =
      std::min(inside ? state.locked.value_or(end) : state.token().value_or(end), points->n_tokens - 1);
  const std::int64_t first = std::max<std::int64_t>(0, focus - kBefore);
  const auto words = lay_out(context, first, std::min(points->n_tokens, focus + kAfter), rect.w);
  const float line_h = context.fonts.mono->FontSize + context.px(4);
  const int n_lines = std::max(1, static_cast<int>(rect.h / line_h));
  const int last_line = words.empty() ? 0 : words.back().line;
  const int top = std::clamp(line_of(words, focus) - n_lines / 2, 0, std::max(0, last_line - n_lines + 1));

  ImGui::GetWindowDrawList()->PushClipRect({rect.x - 2, rect.y}, {rect.right() + 2, rect.bottom()}, true);
  const ImVec2 mouse = ImGui::GetMousePos();
  for (const Word& word : words) {
    if (word.line < top || word.line >= top + n_lines) continue;
    const ImVec2 at(rect.x + word.x, rect.y + static_cast<float>(word.line - top) * line_h);
    draw_word(context, word, at, n_seen);
    const bool under = inside && mouse.x >= at.x && mouse.x < at.x + word.width && mouse.y >= at.y &&
                       mouse.y < at.y + line_h;
    if (!under || word.position >= n_seen) continue;
    context.hovered = word.position;
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.session.lock(word.position);
  }
  ImGui::GetWindowDrawList()->PopClipRect();
  context.widgets["text"] = rect;
}

}  // namespace keyscope::window
