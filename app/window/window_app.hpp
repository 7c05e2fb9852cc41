#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/display/glfw_window.hpp"
#include "app/panels/actions.hpp"
#include "app/panels/dialogs.hpp"
#include "app/panels/difference_view.hpp"
#include "app/panels/figure_panel.hpp"
#include "app/panels/filter_panel.hpp"
#include "app/panels/keyspace_panel.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/text_view.hpp"
#include "app/panels/timeline_panel.hpp"
#include "app/panels/workspace.hpp"
#include "app/session/recent_files.hpp"
#include "app/session/session.hpp"

namespace keyscope::window {

// All panels on one session. Between ImGui::NewFrame and ImGui::Render, on the thread of the OpenGL context.
class Ui : public ActionTarget {
 public:
  //   settings: where recent files and layouts are kept; empty: none are
  Ui(session::Session& session, float scale, bool light, const std::filesystem::path& settings = {});

  void set_theme(bool light);
  bool light() const { return theme_.light; }
  const Fonts& fonts() const { return fonts_; }
  const Theme& theme() const { return theme_; }
  Dialogs& dialogs() { return dialogs_; }
  KeyspacePanel& keyspace() { return keyspace_; }
  FigureView& figure_view();  // of the view that is looked at, which is one

  void take_dropped(const std::filesystem::path& path);
  void take_arrangement() { workspace_.take(session_.state()); }  // before ImGui::NewFrame
  void note_arrangement() { workspace_.note(session_); }
  void draw();

  // Whether something moves, so that the next frame should not wait for input.
  bool wants_frames() const { return wants_frames_; }
  bool wants_close() const { return wants_close_; }
  // What is shown, as JSON: selection, hovered token, places of widgets.
  std::string describe() const;

 private:
  void handle_key(const KeyPress& press);
  void draw_panels(PanelContext& context);
  void draw_view(PanelContext& context, const std::string& view);
  void perform_if(const Action* action);
  void play();

  session::Session& session() override { return session_; }
  void open_dialog(Dialog dialog) override { dialogs_.open(dialog); }
  void toggle_theme() override { set_theme(!theme_.light); }
  void fit_view() override;
  void find_text() override;
  void close_window() override { wants_close_ = true; }
  void prepare_rerun() override;
  std::vector<session::RecentFile> recent_files() const override { return recent_.files(); }
  void copy_text(const std::string& text) override { ImGui::SetClipboardText(text.c_str()); }

  session::Session& session_;
  float scale_;
  Theme theme_;
  Fonts fonts_;
  TextGlyphs glyphs_;
  Dialogs dialogs_;
  KeyspacePanel keyspace_;
  TextView text_;
  DifferenceView difference_;
  std::map<std::string, FigureView> figure_views_;
  Workspace workspace_;
  TimelinePanel timeline_;
  FilterPanel filter_;
  FigurePanel figure_;
  session::RecentList recent_;
  std::map<std::string, Rect> widgets_;
  bool wants_frames_ = false;
  bool wants_close_ = false;
  std::chrono::steady_clock::time_point last_play_{};
};

// ImGui's context with its backends on one window.
class ImguiContext {
 public:
  //   tear_off: whether panels can leave the window, as windows of their own
  ImguiContext(GlfwWindow& window, bool tear_off);
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

  bool take_input();                       // whether there is anything that may change the picture
  void handle_input();                     // dropped files
  void draw_frame();                       // the window, and those that were torn off
  void draw_frame(int width, int height);  // into whatever framebuffer is bound, of this size
  // Where the pointer is in the next frames, instead of where the window has it; nothing: as the window has
  // it.
  void point_at(std::optional<Pixel> at) { pointer_ = at; }
  void write_state();  // where it changed since the last time

 private:
  GlfwWindow window_;
  ImguiContext imgui_;
  session::Session session_;  // ends before the window that its workers wake
  float scale_;
  Ui ui_;
  std::optional<Pixel> pointer_;
  std::filesystem::path state_file_;
  std::string written_state_;
};

}  // namespace keyscope::window
