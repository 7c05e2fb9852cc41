#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "app/panels/actions.hpp"

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

}  // namespace keyscope::window
