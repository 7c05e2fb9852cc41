#include "app/panels/tiles.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/display/plot_legend.hpp"
#include "app/measures/answer.hpp"

namespace keyscope::window {
namespace {

constexpr float kGeneratedPx = 24;
constexpr float kTitlePx = 26, kSignPx = 9, kCrossPx = 20, kTitleGapPx = 8;
constexpr float kTallFrom = 1.25F;  // height against width from which two tiles are stacked
constexpr float kWide = 2.2F;       // width against height from which three stand in a row

std::size_t columns_for(const Rect& area, std::size_t n) {
  if (n <= 1) return 1;
  if (n == 2) return area.height > kTallFrom * area.width ? 1 : 2;
  return n == 3 && area.width >= kWide * area.height ? 3 : 2;
}

// The button that takes a tile away; returns the room that it takes.
float draw_cross(PanelContext& context, const session::RunTile& tile, const Rect& rect) {
  if (tile.selected) return 0;
  const float size = context.px(kCrossPx);
  const ImVec2 at(rect.right() - size, rect.y + 0.5F * (rect.height - size));
  ImGui::SetCursorScreenPos(at);
  if (ImGui::InvisibleButton("away", {size, size})) context.session.toggle_beside(tile.id);
  const bool hovered = ImGui::IsItemHovered();
  if (hovered) ImGui::SetTooltip("No longer beside");
  context.widgets[fmt::format("away_{}_{}", tile.id.source, tile.id.run)] = {at.x, at.y, size, size};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float x = at.x + 0.5F * size, y = at.y + 0.5F * size, arm = context.px(4);
  const ImU32 colour = hovered ? context.theme.text : context.theme.dim;
  list.AddLine({x - arm, y - arm}, {x + arm, y + arm}, colour, context.px(1.3F));
  list.AddLine({x - arm, y + arm}, {x + arm, y - arm}, colour, context.px(1.3F));
  return size;
}

}  // namespace

figures::PolicyLooks::Look look_of(const session::SessionState& state, const session::RunId& id) {
  figures::PolicyLooks looks;
  figures::PolicyLooks::Look look{};
  for (const auto& run : state.info->runs) {
    look = looks.next(run.plan.policy);
    if (id == session::RunId{0, static_cast<int>(&run - state.info->runs.data())}) return look;
  }
  for (const session::RunTile& tile : state.tiles) {
    if (tile.id.source == 0) continue;
    look = looks.next(tile.run().plan.policy);
    if (tile.id == id) return look;
  }
  return looks.next(state.earlier[id.source - 1].recording->info()->runs[id.run].plan.policy);
}

std::vector<Rect> tile_rects(const Rect& area, std::size_t n, float gap) {
  const std::size_t columns = columns_for(area, n);
  const std::size_t rows = (std::max<std::size_t>(1, n) + columns - 1) / columns;
  const auto share = [&](float length, std::size_t parts) {
    const auto count = static_cast<float>(parts);
    return std::max(1.0F, std::floor((length - gap * (count - 1)) / count));
  };
  const float w = share(area.width, columns), h = share(area.height, rows);
  std::vector<Rect> rects;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t column = i % columns, row = i / columns;
    rects.push_back({area.x + static_cast<float>(column) * (w + gap),
                     area.y + static_cast<float>(row) * (h + gap), w, h});
  }
  return rects;
}

std::size_t LeadingTile::among(const std::vector<Rect>& rects) {
  const ImVec2 mouse = ImGui::GetMousePos();
  for (std::size_t i = 0; i < rects.size() && !ImGui::IsAnyMouseDown(); ++i)
    if (mouse.x >= rects[i].x && mouse.x < rects[i].right() && mouse.y >= rects[i].y &&
        mouse.y < rects[i].bottom())
      at_ = i;
  if (at_ >= rects.size()) at_ = 0;
  return at_;
}

float tile_title_height(const PanelContext& context) { return context.px(kTitlePx); }

Rect below_title(const PanelContext& context, const Rect& tile) {
  const float title = tile_title_height(context);
  return {tile.x, tile.y + title, tile.width, std::max(1.0F, tile.height - title)};
}

void draw_tile_title(PanelContext& context, const session::RunTile& tile, const Rect& rect) {
  ImGui::PushID(tile.id.source);
  ImGui::PushID(tile.id.run);
  const Rect title{rect.x, rect.y, rect.width, tile_title_height(context)};
  const float cross = draw_cross(context, tile, title), room_end = title.right() - cross - context.px(4);
  ImGui::SetCursorScreenPos({title.x, title.y});
  if (ImGui::InvisibleButton("title", {std::max(1.0F, room_end - title.x), title.height}) &&
      tile.id.source == 0)
    context.session.select_run(tile.id.run);
  const bool hovered = ImGui::IsItemHovered() && !tile.selected && tile.id.source == 0;
  context.widgets[fmt::format("tile_{}_{}", tile.id.source, tile.id.run)] = {rect.x, rect.y, rect.width,
                                                                             rect.height};
  ImGui::PopID();
  ImGui::PopID();

  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (tile.selected || hovered)
    list.AddRectFilled({title.x, title.y}, {title.right(), title.bottom() - context.px(2)},
                       tile.selected ? context.theme.selected : context.theme.hover, context.px(4));
  const float y = title.y + 0.5F * (title.height - context.px(2));
  const auto look = look_of(context.state(), tile.id);
  float x = title.x + context.px(kTitleGapPx) + 0.5F * context.px(kSignPx);
  draw_marker(list, look.marker, {x, y}, context.px(kSignPx), ink_colour(context.theme, look.colour), 0);
  x += context.px(kSignPx);
  const auto put = [&](const Font& font, ImU32 colour, const std::string& text) {
    const std::string fitted = fit_text(font, text, room_end - x);
    if (text.empty() || room_end - x < context.px(16)) return;
    draw_text(list, font, {x, y - 0.5F * font.size}, colour, fitted);
    x += text_size(font, fitted).x + context.px(kTitleGapPx);
  };
  const session::TileTitle words = session::tile_title(tile);
  put(tile.selected ? context.fonts.bold : context.fonts.regular, context.theme.text, words.name);
  put(context.fonts.small, context.theme.dim, words.budget);
  std::string kept = words.kept.empty() ? words.kept : "·  " + words.kept + " kept";
  if (tile.waiting()) kept += "  ·  reading …";
  put(context.fonts.small, context.theme.dim, kept);
}

float generated_height(const PanelContext& context, const std::vector<session::RunTile>& tiles) {
  const bool any =
      std::ranges::any_of(tiles, [](const auto& tile) { return tile.run().generated.size() > 0; });
  return any ? context.px(kGeneratedPx) : 0;
}

void draw_generated(const PanelContext& context, const session::RunTile& tile, const Rect& line) {
  const recording::TokenText& generated = tile.run().generated;
  if (generated.size() == 0) return;
  const std::string answer = measures::right_answer(*tile.info);
  const auto marks = measures::mark_answer(generated, answer);
  const Font& font = context.fonts.small;
  std::vector<std::string> words;
  float needed = 0;
  for (std::int64_t i = 0; i < generated.size(); ++i) {
    words.push_back(figures::text_label(generated.token(i)));
    needed += text_size(font, words.back()).x;
  }
  const bool wrong = std::ranges::find(marks, measures::AnswerMark::kWrong) != marks.end();
  const std::string verdict = measures::is_answered(generated, answer) ? "right" : wrong ? "wrong" : "";
  const auto colour_of = [&](bool right) {
    return ink_colour(context.theme, right ? figures::kGreen : figures::kVermillion);
  };
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float y = line.y + 0.5F * (line.height - font.size), gap = context.px(kTitleGapPx);
  float x = line.x + gap;
  const auto put = [&](ImU32 colour, const std::string& text) {
    draw_text(list, font, {x, y}, colour, text);
    x += text_size(font, text).x;
  };
  if (!verdict.empty()) {
    put(colour_of(verdict == "right"), verdict);
    x += gap;
  }
  std::size_t first = 0;
  for (; first < words.size() && x + needed > line.right(); ++first)
    needed -= text_size(font, words[first]).x;
  if (first > 0) put(context.theme.dim, "…");
  for (std::size_t i = first; i < words.size(); ++i) {
    const float left = x;
    put(context.theme.text, words[i]);
    if (marks[i] == measures::AnswerMark::kNone) continue;
    const ImU32 colour = colour_of(marks[i] == measures::AnswerMark::kRight);
    list.AddRectFilled({left, y + font.size + context.px(1)}, {x, y + font.size + context.px(3)}, colour);
  }
}

void draw_tile_refusal(const PanelContext& context, const session::RunTile& tile, const Rect& rect,
                       const std::string& why) {
  const std::string text = tile.waiting() ? "reading …" : tile.refusal.empty() ? why : tile.refusal;
  const Font& font = context.fonts.small;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRect({rect.x, rect.y}, {rect.right(), rect.bottom()}, context.theme.border);
  const std::string fitted = fit_text(font, text, rect.width - context.px(kTitleGapPx));
  const ImVec2 size = text_size(font, fitted);
  draw_text(
      list, font,
      {std::floor(rect.x + 0.5F * (rect.width - size.x)), std::floor(rect.y + 0.5F * (rect.height - size.y))},
      context.theme.dim, fitted);
}

}  // namespace keyscope::window
