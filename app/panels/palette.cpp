#include "app/panels/palette.hpp"

#include <algorithm>
#include <array>

#include <GLFW/glfw3.h>
#include <fmt/format.h>

#include "app/panels/palette_entries.hpp"
#include "app/display/widgets.hpp"

namespace keyscope::window {
namespace {

constexpr float kRowHeight = 26;
constexpr std::ptrdiff_t kPage = 10;  // rows in sight, and what Page Up and Down move by

struct KeyMove {
  int key;
  std::ptrdiff_t by;
};
constexpr std::array kMoves{KeyMove{GLFW_KEY_UP, -1}, KeyMove{GLFW_KEY_DOWN, 1},
                            KeyMove{GLFW_KEY_PAGE_UP, -kPage}, KeyMove{GLFW_KEY_PAGE_DOWN, kPage}};

bool is_enter(const KeyPress& press) { return press.key == GLFW_KEY_ENTER || press.key == GLFW_KEY_KP_ENTER; }

}  // namespace

void Palette::open(const session::Session& session, const std::vector<session::RecentFile>& recent) {
  typed_.clear();
  searched_.clear();
  list_.start(palette_entries(session, recent));
}

bool Palette::takes(const KeyPress& press) const {
  return is_enter(press) || std::ranges::find(kMoves, press.key, &KeyMove::key) != kMoves.end();
}

std::optional<PaletteEntry> Palette::take_key(const KeyPress& press) {
  if (is_enter(press)) return chosen();
  const auto move = std::ranges::find(kMoves, press.key, &KeyMove::key);
  if (move == kMoves.end()) return std::nullopt;
  list_.move(move->by);
  show_cursor_ = true;
  return std::nullopt;
}

std::optional<PaletteEntry> Palette::chosen() const {
  const PaletteEntry* entry = list_.chosen();
  return entry != nullptr ? std::optional(*entry) : std::nullopt;
}

void Palette::draw_field(PanelContext& context) {
  // Enter and clicks beside it take the keyboard from the field; nothing else here wants it.
  if (!ImGui::IsAnyItemActive()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  text_field(context, "##wanted", "What to do: layer 3, export, cosines …", &typed_);
  if (typed_ == searched_) return;
  searched_ = typed_;
  list_.search(typed_, typed_entries(context.session, typed_));
  show_cursor_ = true;
}

// One row at the cursor; true if it was clicked.
bool Palette::draw_row(PanelContext& context, std::size_t place) {
  const PaletteEntry& entry = list_.entry(place);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(ImGui::GetContentRegionAvail().x, context.px(kRowHeight));
  ImGui::PushID(static_cast<int>(place));
  const bool clicked = ImGui::InvisibleButton("entry", size);
  ImGui::PopID();
  const bool moved = ImGui::GetIO().MouseDelta.x != 0 || ImGui::GetIO().MouseDelta.y != 0;
  if (ImGui::IsItemHovered() && moved) list_.point(place);

  ImDrawList& list = *ImGui::GetWindowDrawList();
  const bool here = place == list_.cursor();
  if (here) list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, context.theme.selected, context.px(4));
  const bool refused = !entry.refusal.empty();
  const std::string& right = refused ? entry.refusal : entry.hint;
  ImFont* small = context.fonts.small;
  const float most = 0.6F * size.x;
  const std::string hint = fit_text(small, right, most);
  const float hint_x = at.x + size.x - context.px(10) - text_size(small, hint).x;
  const float name_x = at.x + context.px(10);
  ImFont* font = context.fonts.regular;
  draw_text(list, font, {name_x, at.y + 0.5F * (size.y - font->FontSize)},
            refused ? with_alpha(context.theme.dim, 0.7F) : context.theme.text,
            fit_text(font, entry.name, hint_x - name_x - context.px(12)));
  draw_text(list, small, {hint_x, at.y + 0.5F * (size.y - small->FontSize)},
            refused ? with_alpha(context.theme.dim, 0.7F) : context.theme.dim, hint);
  return clicked;
}

std::optional<PaletteEntry> Palette::draw(PanelContext& context) {
  draw_field(context);
  std::optional<PaletteEntry> clicked;
  const float row = context.px(kRowHeight);
  const float most = ImGui::GetIO().DisplaySize.y - ImGui::GetCursorScreenPos().y - context.px(56);
  const auto rows =
      static_cast<float>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(list_.size()), 1, kPage));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  ImGui::BeginChild("entries", {0, std::min(rows * row, std::max(row, most))});
  if (show_cursor_) {
    const float top = static_cast<float>(list_.cursor()) * row;
    const float seen = ImGui::GetWindowHeight();
    if (top < ImGui::GetScrollY()) ImGui::SetScrollY(top);
    if (top + row > ImGui::GetScrollY() + seen) ImGui::SetScrollY(top + row - seen);
    show_cursor_ = false;
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(list_.size()), row);
  while (clipper.Step())
    for (int place = clipper.DisplayStart; place < clipper.DisplayEnd; ++place)
      if (draw_row(context, static_cast<std::size_t>(place))) {
        list_.point(static_cast<std::size_t>(place));
        clicked = chosen();
      }
  ImGui::EndChild();
  ImGui::PopStyleVar();
  ImGui::Dummy({0, 0});
  const std::size_t n = list_.size();
  const std::string count =
      n < list_.n_offered() ? fmt::format("{} of {}", n, list_.n_offered()) : fmt::format("all {}", n);
  dim_text(context, n == 0 ? "nothing fits   Esc: close"
                           : fmt::format("showing {}   ↑ ↓: choose   Enter: do   Esc: close", count));
  return clicked;
}

}  // namespace keyscope::window
