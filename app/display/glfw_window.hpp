#pragma once

struct GLFWwindow;

#include <string>
#include <vector>

namespace keyscope::window {

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

  // What came in since the last time.
  std::vector<std::string> take_dropped_files();
  bool take_input();  // whether the window itself changed, or something was dropped on it

 private:
  void install_callbacks();

  GLFWwindow* window_ = nullptr;
  std::vector<std::string> dropped_;
  bool input_ = true;
};

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
