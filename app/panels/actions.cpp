#include "app/panels/actions.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>

#include <GLFW/glfw3.h>
#include <fmt/format.h>

namespace keyscope::window {
namespace {

constexpr int kControl = GLFW_MOD_CONTROL, kShift = GLFW_MOD_SHIFT;
constexpr int kModifiers = GLFW_MOD_CONTROL | GLFW_MOD_SHIFT | GLFW_MOD_ALT | GLFW_MOD_SUPER;

struct KeyName {
  int key;
  std::string_view name;
};
constexpr KeyName kKeyNames[] = {{GLFW_KEY_LEFT, "←"},     {GLFW_KEY_RIGHT, "→"},   {GLFW_KEY_UP, "↑"},
                                 {GLFW_KEY_DOWN, "↓"},     {GLFW_KEY_HOME, "Home"}, {GLFW_KEY_END, "End"},
                                 {GLFW_KEY_SPACE, "Space"}};

std::string key_name(int key) {
  const auto named = std::ranges::find(kKeyNames, key, &KeyName::key);
  return named != std::end(kKeyNames) ? std::string(named->name)
                                      : std::string(1, static_cast<char>(key));  // GLFW's letters are ASCII
}

// Which key of the shortcut's was pressed; -1: none.
int place_in(const Shortcut& shortcut, const KeyPress& press) {
  const bool meant = shortcut.key != 0 && press.key >= shortcut.key &&
                     press.key < shortcut.key + shortcut.n_keys &&
                     (press.modifiers & kModifiers) == shortcut.modifiers;
  return meant ? press.key - shortcut.key : -1;
}

}  // namespace

std::string shortcut_text(const Shortcut& shortcut) {
  if (shortcut.key == 0) return {};
  if (shortcut.key == GLFW_KEY_SLASH && shortcut.modifiers == kShift) return "?";
  std::string text;
  if ((shortcut.modifiers & kControl) != 0) text += "Ctrl + ";
  if ((shortcut.modifiers & kShift) != 0) text += "Shift + ";
  text += key_name(shortcut.key);
  if (shortcut.n_keys > 1) text += " … " + key_name(shortcut.key + shortcut.n_keys - 1);
  return text;
}

const Action& action(std::string_view id) {
  const auto found = std::ranges::find(actions(), id, &Action::id);
  assert(found != actions().end());
  return *found;
}

void perform(const Action& action, ActionTarget& target, int nth) {
  const std::string_view refusal = action.refusal(target.session());
  if (refusal.empty()) return action.act(target, nth);
  target.session().say({fmt::format("{}: {}.", action.name, refusal), false});
}

bool perform_key(const KeyPress& press, bool in_dialog, ActionTarget& target) {
  const Action* refused = nullptr;
  for (const Action& action : actions()) {
    const int nth = std::max(place_in(action.shortcut, press), place_in(action.other, press));
    if (nth < 0 || (in_dialog && action.reach != Reach::kEverywhere)) continue;
    if (action.refusal(target.session()).empty()) {
      action.act(target, nth);
      return true;
    }
    if (refused == nullptr) refused = &action;
  }
  if (refused != nullptr) perform(*refused, target);  // says why not
  return refused != nullptr;
}

}  // namespace keyscope::window
