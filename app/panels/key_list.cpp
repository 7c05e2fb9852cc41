#include "app/panels/key_list.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "app/panels/actions.hpp"

namespace keyscope::window {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 10> kMouse{{
    {"Esc", "release and unselect, close what is open"},
    {"drag", "pan; turn the key space in 3D"},
    {"middle-drag, Shift + drag", "pan, in 3D as well"},
    {"wheel", "zoom at the cursor"},
    {"right-drag", "select tokens in a box; elsewhere zoom to it"},
    {"Shift + right-drag", "select tokens inside an outline"},
    {"Ctrl + right-drag", "zoom to a box"},
    {"double-click", "fit the view"},
    {"click", "hold a token; on the legend: hide a kind of point"},
    {"right-click", "menu of the plot"},
}};

}  // namespace

KeyList::KeyList(const PanelContext& context) : margin_(context.px(20)) {
  for (const Action& action : actions()) {
    if (action.shortcut.key == 0) continue;  // only by button or palette
    const std::string other = shortcut_text(action.other);
    const bool is_short = !other.empty() && other.size() <= 6;
    rows_.push_back({shortcut_text(action.shortcut) + (is_short ? ", " + other : ""), action.name});
  }
  for (const auto& [keys, what] : kMouse) rows_.push_back({keys, what});
  float what_width = 0;
  for (const Row& row : rows_) {
    keys_width_ = std::max(keys_width_, text_size(context.fonts.bold, row.keys).x);
    what_width = std::max(what_width, text_size(context.fonts.regular, std::string(row.what)).x);
  }
  keys_width_ += context.px(14);
  column_ = keys_width_ + what_width + context.px(24);
  n_columns_ = 2 * column_ + 2 * margin_ <= ImGui::GetIO().DisplaySize.x - context.px(40) ? 2 : 1;
}

void KeyList::draw_row(const PanelContext& context, const Row& row, float x) const {
  ImGui::SetCursorPosX(x);
  ImGui::PushFont(context.fonts.bold);
  ImGui::TextUnformatted(row.keys.c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::SetCursorPosX(x + keys_width_);
  ImGui::TextUnformatted(row.what.data(), row.what.data() + row.what.size());
}

void KeyList::draw(const PanelContext& context) const {
  const auto n = rows_.size();
  const std::size_t n_lines = n_columns_ == 2 ? (n + 1) / 2 : n;
  const float left = ImGui::GetCursorPosX();
  for (std::size_t line = 0; line < n_lines; ++line) {
    draw_row(context, rows_[line], left);
    if (n_lines + line >= n) continue;
    ImGui::SameLine();
    draw_row(context, rows_[n_lines + line], left + column_);
  }
}

}  // namespace keyscope::window
