#pragma once

#include <optional>
#include <string>

#include "app/panels/palette_list.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// Ctrl+P: a field that finds everything that can be done, by some of its letters. What was chosen is handed
// to the caller, who closes the palette first: it may open another dialog.
class Palette {
 public:
  void open(const session::Session& session, const std::vector<session::RecentFile>& recent);

  // Arrows, Page Up and Down move, Enter chooses; other keys are the field's.
  bool takes(const KeyPress& press) const;
  std::optional<PaletteEntry> take_key(const KeyPress& press);

  // Inside an ImGui window; returns what was clicked.
  std::optional<PaletteEntry> draw(PanelContext& context);

  const PaletteList& list() const { return list_; }

 private:
  void draw_field(PanelContext& context);
  bool draw_row(PanelContext& context, std::size_t place);
  std::optional<PaletteEntry> chosen() const;

  PaletteList list_;
  std::string typed_, searched_;
  bool show_cursor_ = false;  // it was moved by keys: its row comes into sight
};

}  // namespace keyscope::window
