#pragma once

#include <string_view>

namespace keyscope::window {

// The key by the letter that is printed on it, where that is one of A to Z: GLFW goes by the place of a key
// on an American keyboard, where Z lies elsewhere than on a German one. Digits stay as they are: where Shift
// is needed for them, other signs are printed.
//   key: GLFW_KEY_…; printed: what glfwGetKeyName says, empty for keys that print nothing
int printed_key(int key, std::string_view printed);

}  // namespace keyscope::window
