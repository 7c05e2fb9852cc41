#include "app/window/printed_key.hpp"

#include <GLFW/glfw3.h>

namespace keyscope::window {

int printed_key(int key, std::string_view printed) {
  if (printed.size() != 1) return key;
  const char sign = printed.front();
  if (sign >= 'a' && sign <= 'z') return GLFW_KEY_A + (sign - 'a');
  if (sign >= 'A' && sign <= 'Z') return GLFW_KEY_A + (sign - 'A');
  // Another sign where an American keyboard has a letter: nothing that is printed there is meant by one.
  return key >= GLFW_KEY_A && key <= GLFW_KEY_Z ? GLFW_KEY_UNKNOWN : key;
}

}  // namespace keyscope::window
