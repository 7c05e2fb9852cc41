#include "app/window/window.hpp"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <epoxy/gl.h>
// After epoxy, so that GLFW does not bring another OpenGL header.
#include <GLFW/glfw3.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/session/settings_file.hpp"
#include "app/display/gl_objects.hpp"
#include "app/window/loop.hpp"
#include "app/window/screenshot.hpp"
#include "app/window/settings.hpp"
#include "app/window/window_app.hpp"

namespace keyscope::window {
namespace {

WindowApp::Options app_options(const WindowRequest& request, bool visible) {
  WindowApp::Options options;
  // A picture shows what was asked for, wherever it is taken, and leaves no trace.
  if (visible) options.settings = session::settings_folder();
  const Settings settings = load_settings(options.settings);
  const bool sized = request.width > 0 && request.height > 0;
  options.width = sized ? request.width : settings.width;
  options.height = sized ? request.height : settings.height;
  options.on_screen = !sized;
  options.scale = request.scale;
  options.light = request.light.value_or(settings.light);
  options.visible = visible;
  options.state_file = request.state_file;
  return options;
}

bool can_start(const session::LiveRequest& live) {
  return !live.model_folder.empty() && (!live.prompt.empty() || !live.options.prompt_ids.empty());
}

void open_what_was_asked_for(WindowApp& app, const WindowRequest& request) {
  if (!request.view.empty()) app.session().choose_view(request.view);
  app.session().choose_look(request.look);
  app.session().set_figure_settings(request.settings);
  const session::Keep keep{!request.view.empty(), request.look != figures::KeyspaceLook(),
                           request.settings != session::FigureSettings()};
  if (!request.path.empty()) app.session().open(request.path, request.selection, keep);
  if (!request.live) return;
  app.ui().dialogs().live_form().fill(*request.live);
  if (can_start(*request.live)) {
    app.session().start_live(session::make_live_capture(*request.live), request.selection, request.live->out);
    app.ui().dialogs().live_form().started();
  } else {
    app.ui().dialogs().open(Dialog::kLive);
  }
}

// A theme or size of the command line's was meant for this time.
void remember(WindowApp& app, const WindowRequest& request) {
  app.session().remember();
  const std::filesystem::path folder = session::settings_folder();
  const Settings before = load_settings(folder);
  Settings now = before;
  if (!request.light || app.ui().light() != *request.light) now.light = app.ui().light();
  if (request.width == 0) glfwGetWindowSize(app.window().handle(), &now.width, &now.height);
  if (now != before) save_settings(folder, now);
}

[[noreturn]] void refuse_without_display() {
  throw Error(
      "there is no display to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set); use `keyscope "
      "figure` and `keyscope export` for files, or run this under `xvfb-run -s '-screen 0 1280x800x24'`");
}

// What went wrong while a picture was to be taken, which nobody would see in the window.
void throw_failures(session::Session& session) {
  const auto& state = session.state();
  if (!state.open_error.empty()) throw FileError(state.open_error);
  const auto live = session.live_status();
  if (live && live->stage == session::LiveStage::kFailed) throw Error(live->message);
  if (state.notice.error && state.notice.of_data) throw Error(state.notice.text);
  if (state.notice.error) throw UsageError(state.notice.text);  // of the selection that was asked for
  if (state.picture && !state.picture->refusal.empty()) throw UsageError(state.picture->refusal);
  if (!state.shown.error.empty()) throw Error(state.shown.error);
}

void take_screenshot(WindowApp& app, const WindowRequest& request) {
  while (app.session().busy()) {
    // A live run that is left ends within a block, and keeps what it recorded.
    if (close_requested()) throw Cancelled("interrupted; no picture was taken");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    app.session().drain();
  }
  app.session().drain();
  throw_failures(app.session());
  // Off screen, because the contents of a hidden window are undefined.
  RenderTarget target;
  int width = 0, height = 0;
  app.window().framebuffer_size(width, height);
  if (request.width > 0 && request.height > 0) {  // larger than the screen, if need be
    width = request.width;
    height = request.height;
  }
  target.resize(width, height);
  for (int frame = 0; frame < kSettlingFrames; ++frame) {
    app.session().drain();
    glBindFramebuffer(GL_FRAMEBUFFER, target.framebuffer());
    app.draw_frame(width, height);
  }
  save_screenshot(request.screenshot, width, height, request.replace_screenshot);
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
  app.write_state();
}

}  // namespace

bool has_display() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  return set("DISPLAY") || set("WAYLAND_DISPLAY");
}

int run_window(const WindowRequest& request) {
  if (!has_display()) refuse_without_display();
  const bool visible = request.screenshot.empty();
  WindowApp app(app_options(request, visible));
  open_what_was_asked_for(app, request);
  if (!visible) {
    take_screenshot(app, request);
    return 0;
  }
  run_loop(app);
  remember(app, request);
  app.window().hide();  // what still runs ends within a block; nobody should watch a dead window
  return 0;
}

}  // namespace keyscope::window
