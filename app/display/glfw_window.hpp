#pragma once

struct GLFWwindow;

#include <string>
#include <string_view>
#include <vector>

namespace keyscope::window {

struct KeyPress {
  int key = 0;  // GLFW_KEY_… by what is printed on it, see printed_key
  int modifiers = 0;
};

// A window with an OpenGL 3.3 core context that is current on this thread. One at a time.
class GlfwWindow {
 public:
  //   width, height: pixels; 0: as default_size says of the primary monitor
  //   on_screen: no larger than what that monitor has room for, as for a size from another time
  //   throws Error where there is no display or no OpenGL 3.3, saying what to do
  GlfwWindow(int width, int height, bool visible, bool on_screen = false);
  ~GlfwWindow();
  GlfwWindow(const GlfwWindow&) = delete;
  GlfwWindow& operator=(const GlfwWindow&) = delete;

  GLFWwindow* handle() const { return window_; }
  float content_scale() const;
  bool should_close() const;
  void framebuffer_size(int& width, int& height) const;

  // Waits for input, at most so long; 0: takes in what there is.
  void wait_events(double seconds);
  void swap();
  void hide();
  static void wake();  // from any thread: ends wait_events

  // What came in since the last time. No key press is lost, however short.
  std::vector<KeyPress> take_keys();
  std::vector<std::string> take_dropped_files();
  bool take_input();  // whether anything happened that may change the picture

 private:
  void install_callbacks();

  GLFWwindow* window_ = nullptr;
  std::vector<KeyPress> keys_;
  std::vector<std::string> dropped_;
  bool input_ = true;
};

// The key by the letter that is printed on it, where that is one of A to Z: GLFW goes by the place of a key
// on an American keyboard, where Z lies elsewhere than on a German one. Digits stay as they are: where Shift
// is needed for them, other signs are printed.
//   key: GLFW_KEY_…; printed: what glfwGetKeyName says, empty for keys that print nothing
int printed_key(int key, std::string_view printed);

struct WindowSize {
  int width = 0, height = 0;
};

// The size of a window that no size was asked for: 1280 x 800 at the monitor's scale, at most its work area.
//   content_scale: of the monitor, 1 where it is not known
//   work_area: pixels, 0 where it is not known
WindowSize default_size(float content_scale, WindowSize work_area);

inline constexpr WindowSize kLeastSize{640, 420};  // below it panels do not fit

// A size cut to the work area, never below the least one.
//   work_area: pixels, 0 where it is not known
WindowSize within(WindowSize size, WindowSize work_area);

}  // namespace keyscope::window
