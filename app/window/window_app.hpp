#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "app/panels/ui.hpp"
#include "app/session/session.hpp"
#include "app/display/glfw_window.hpp"
#include "app/window/kept_frame.hpp"

namespace keyscope::window {

// ImGui's context with its backends on one window.
class ImguiContext {
 public:
  explicit ImguiContext(GlfwWindow& window);
  ~ImguiContext();
  ImguiContext(const ImguiContext&) = delete;
  ImguiContext& operator=(const ImguiContext&) = delete;
};

// The window, its session and its panels: everything but the loop.
class WindowApp {
 public:
  struct Options {
    int width = 0, height = 0;  // 0: to suit the monitor
    bool on_screen = false;     // no larger than the monitor, whatever stands above
    float scale = 0;            // 0: the monitor's
    bool light = false;
    std::filesystem::path settings;  // folder of what is remembered; empty: nothing is
    bool visible = true;
    std::filesystem::path state_file;
  };

  //   throws Error as GlfwWindow does
  explicit WindowApp(const Options& options);

  session::Session& session() { return session_; }
  Ui& ui() { return ui_; }
  GlfwWindow& window() { return window_; }

  void handle_input();  // keys and dropped files
  void draw_frame();    // into whatever framebuffer is bound, of this size
  void draw_frame(int width, int height);
  // Where the pointer is in the next frames, instead of where the window has it; nothing: as the window has
  // it.
  void point_at(std::optional<Pixel> at) { pointer_ = at; }
  void write_state();  // where it changed since the last time

 private:
  void upload_fonts();

  GlfwWindow window_;
  ImguiContext imgui_;
  session::Session session_;  // ends before the window that its workers wake
  float scale_;
  Ui ui_;
  KeptFrame frame_;
  std::optional<Pixel> pointer_;
  std::filesystem::path state_file_;
  std::string written_state_;
};

}  // namespace keyscope::window
