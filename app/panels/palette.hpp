#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/panels/actions.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// Something that the palette offers.
struct PaletteEntry {
  std::string name;
  std::string hint;     // at the right: its shortcut, or where it is
  std::string refusal;  // why it cannot be done now; empty: it can
  std::function<void(ActionTarget&)> act;
};

// What is typed, what of the offered fits it, best first, and the one that Enter would do. No drawing.
class PaletteList {
 public:
  // Begins anew with what is offered now.
  void start(std::vector<PaletteEntry> offered);

  // What is typed now. `direct` comes first, whatever fits: an entry that was made of the text itself.
  void search(const std::string& wanted, std::vector<PaletteEntry> direct = {});

  std::size_t size() const { return shown_.size(); }
  std::size_t n_offered() const { return offered_.size(); }
  const PaletteEntry& entry(std::size_t place) const { return *shown_[place]; }
  std::size_t cursor() const { return cursor_; }
  void move(std::ptrdiff_t by);  // round from the last to the first; more than one stops at the ends
  void point(std::size_t place);

  // The entry under the cursor, if there is one and it can be done.
  const PaletteEntry* chosen() const;

 private:
  std::vector<PaletteEntry> offered_, direct_;
  std::vector<const PaletteEntry*> shown_;
  std::size_t cursor_ = 0;
};

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

// Everything that can be asked for now: all actions, then the views, measures and runs of the recording, or
// the figures of the file, then what else it holds, earlier runs and recent files.
std::vector<PaletteEntry> palette_entries(const session::Session& session,
                                          const std::vector<session::RecentFile>& recent = {});

// What the typed text itself asks for: "layer 3 head 2". None where it is other words.
std::vector<PaletteEntry> typed_entries(const session::Session& session, const std::string& typed);

}  // namespace keyscope::window
