#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/panels/panel_context.hpp"
#include "app/session/recent_files.hpp"
#include "app/session/session.hpp"

namespace keyscope::window {

// What actions act on: the session, and what only the window can do.
class ActionTarget {
 public:
  virtual ~ActionTarget() = default;
  virtual session::Session& session() = 0;
  virtual void open_dialog(Dialog dialog) = 0;
  virtual void toggle_theme() = 0;
  virtual void fit_view() = 0;
  virtual void find_text() = 0;
  virtual void close_window() = 0;
  virtual void prepare_rerun() = 0;  // opens the form with what is shown now
  virtual std::vector<session::RecentFile> recent_files() const = 0;
  virtual void copy_text(const std::string& text) = 0;  // to the clipboard
};

// A key that was pressed, or is held so long that it counts again.
struct KeyPress {
  int key = 0;        // ImGuiKey_…, by what is printed on it
  int modifiers = 0;  // ImGuiMod_…
};

// Those of this frame, by ImGui.
std::vector<KeyPress> pressed_keys();

struct Shortcut {
  int key = 0;  // ImGuiKey_…; 0: none
  int modifiers = 0;
  int n_keys = 1;  // keys in a row that ask for the first, the second …: 1 to 9
};

// "Ctrl + Shift + Z", "?", "1 … 9"; empty for none.
std::string shortcut_text(const Shortcut& shortcut);

// Where an action's keys work.
enum class Reach {
  kPanels,      // where neither a dialog is open nor text is typed
  kEverywhere,  // from dialogs and fields as well
};

// Something that can be asked for by key, button or palette; the one place that says by which.
struct Action {
  std::string_view id;    // stable: widgets and tests go by it
  std::string_view name;  // as the palette and the list of keys say it
  Shortcut shortcut, other;
  Reach reach;
  std::string_view (*refusal)(const session::Session&);  // why it cannot be done now; empty: it can
  void (*act)(ActionTarget&, int nth);                   // nth: which key of the shortcut's, from 0
};

std::span<const Action> actions();
const Action& action(std::string_view id);  // one that exists

// Does it, or says why it cannot be done now.
void perform(const Action& action, ActionTarget& target, int nth = 0);

// Performs what the key stands for: the first action of those that have it which can be done now. Returns
// whether any has it.
//   in_dialog: a dialog is open, or text is being typed
bool perform_key(const KeyPress& press, bool in_dialog, ActionTarget& target);

}  // namespace keyscope::window
