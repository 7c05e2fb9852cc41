#pragma once

#include <string>
#include <vector>

struct GLFWwindow;

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

}  // namespace keyscope::window
