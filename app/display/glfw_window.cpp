#include "app/display/glfw_window.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <GLFW/glfw3.h>
#include <epoxy/gl.h>
#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::window {

namespace {

GlfwWindow& self(GLFWwindow* window) { return *static_cast<GlfwWindow*>(glfwGetWindowUserPointer(window)); }

std::string last_glfw_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text != nullptr ? text : "no reason given";
}

void set_hints(bool visible) {
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  glfwWindowHint(GLFW_VISIBLE, visible ? GLFW_TRUE : GLFW_FALSE);
  glfwWindowHint(GLFW_FOCUS_ON_SHOW, GLFW_TRUE);
  glfwWindowHintString(GLFW_X11_CLASS_NAME, "keyscope");
}

WindowSize primary_work_area() {
  WindowSize area;
  if (GLFWmonitor* monitor = glfwGetPrimaryMonitor())
    glfwGetMonitorWorkarea(monitor, nullptr, nullptr, &area.width, &area.height);
  return area;
}

WindowSize primary_default_size() {
  GLFWmonitor* monitor = glfwGetPrimaryMonitor();
  if (monitor == nullptr) return default_size(1, {});
  float scale_x = 1, scale_y = 1;
  glfwGetMonitorContentScale(monitor, &scale_x, &scale_y);
  return default_size(scale_x, primary_work_area());
}

// From the first window to the process's end: an X server that its last client leaves starts anew, and
// refuses who comes meanwhile.
void reach_window_system() {
  struct Glfw {
    Glfw() {
      // Under Wayland no window can say where it stands, so that panels could not be torn off.
      const char* x11 = std::getenv("DISPLAY");
      if (x11 != nullptr && *x11 != '\0') glfwInitHint(GLFW_PLATFORM, GLFW_PLATFORM_X11);
      if (glfwInit() != GLFW_TRUE)
        throw Error(
            fmt::format("the window system cannot be reached ({}); is DISPLAY right?", last_glfw_error()));
    }
    Glfw(const Glfw&) = delete;
    Glfw& operator=(const Glfw&) = delete;
    ~Glfw() { glfwTerminate(); }
  };
  static const Glfw glfw;
}

}  // namespace

GlfwWindow::GlfwWindow(int width, int height, bool visible, bool on_screen) {
  reach_window_system();
  set_hints(visible);
  WindowSize size{width, height};
  if (width <= 0 || height <= 0) size = primary_default_size();
  if (on_screen) size = within(size, primary_work_area());
  window_ = glfwCreateWindow(size.width, size.height, "Keyscope", nullptr, nullptr);
  if (window_ == nullptr)
    throw Error(
        fmt::format("no window with OpenGL 3.3 can be opened ({}); with LIBGL_ALWAYS_SOFTWARE=1 Mesa draws "
                    "without a graphics card",
                    last_glfw_error()));
  glfwMakeContextCurrent(window_);
  glfwSwapInterval(1);
  glfwSetWindowSizeLimits(window_, kLeastSize.width, kLeastSize.height, GLFW_DONT_CARE, GLFW_DONT_CARE);
  glfwSetWindowUserPointer(window_, this);
  install_callbacks();
}

GlfwWindow::~GlfwWindow() { glfwDestroyWindow(window_); }

// Set before ImGui's own callbacks, which call these.
void GlfwWindow::install_callbacks() {
  glfwSetDropCallback(window_, [](GLFWwindow* window, int count, const char** paths) {
    self(window).input_ = true;
    for (int i = 0; i < count; ++i) self(window).dropped_.emplace_back(paths[i]);
  });
  glfwSetFramebufferSizeCallback(window_, [](GLFWwindow* window, int, int) { self(window).input_ = true; });
  glfwSetWindowRefreshCallback(window_, [](GLFWwindow* window) { self(window).input_ = true; });
  glfwSetWindowCloseCallback(window_, [](GLFWwindow* window) { self(window).input_ = true; });
}

float GlfwWindow::content_scale() const {
  float x = 1;
  float y = 1;
  glfwGetWindowContentScale(window_, &x, &y);
  return x > 0 ? x : 1;
}

bool GlfwWindow::should_close() const { return glfwWindowShouldClose(window_) == GLFW_TRUE; }

void GlfwWindow::framebuffer_size(int& width, int& height) const {
  glfwGetFramebufferSize(window_, &width, &height);
}

void GlfwWindow::wait_events(double seconds) {
  if (seconds > 0)
    glfwWaitEventsTimeout(seconds);
  else
    glfwPollEvents();
}

void GlfwWindow::swap() { glfwSwapBuffers(window_); }

void GlfwWindow::hide() { glfwHideWindow(window_); }

void GlfwWindow::wake() { glfwPostEmptyEvent(); }

std::vector<std::string> GlfwWindow::take_dropped_files() { return std::exchange(dropped_, {}); }
bool GlfwWindow::take_input() { return std::exchange(input_, false); }

WindowSize default_size(float content_scale, WindowSize work_area) {
  const float scale = content_scale > 0 ? content_scale : 1;
  const WindowSize size{static_cast<int>(std::lround(1280 * scale)),
                        static_cast<int>(std::lround(800 * scale))};
  return within(size, work_area);
}

WindowSize within(WindowSize size, WindowSize work_area) {
  if (work_area.width > 0) size.width = std::min(size.width, work_area.width);
  if (work_area.height > 0) size.height = std::min(size.height, work_area.height);
  return {std::max(size.width, kLeastSize.width), std::max(size.height, kLeastSize.height)};
}

}  // namespace keyscope::window
