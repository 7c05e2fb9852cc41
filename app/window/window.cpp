#include "app/window/window.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <GLFW/glfw3.h>
#include <cairo.h>
#include <epoxy/gl.h>
#include <fmt/format.h>
#include <imgui.h>
#include <nlohmann/json.hpp>

#include "app/display/frame.hpp"
#include "app/display/gl_objects.hpp"
#include "app/panels/workspace.hpp"
#include "app/session/live.hpp"
#include "app/session/live_request.hpp"
#include "app/session/remembered.hpp"
#include "app/window/window_app.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

// Saves the bound framebuffer as a PNG; the file appears under its name when it is complete.
//   replace: whether an existing file may be replaced
//   throws FileError where it cannot be written
void save_screenshot(const std::filesystem::path& path, int width, int height, bool replace) {
  std::vector<unsigned char> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4);
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
  // BGRA in memory is cairo's RGB24 on little-endian machines.
  glReadPixels(0, 0, width, height, GL_BGRA, GL_UNSIGNED_BYTE, pixels.data());
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  cairo_surface_flush(surface);
  unsigned char* data = cairo_image_surface_get_data(surface);
  const int stride = cairo_image_surface_get_stride(surface);
  for (int row = 0; data != nullptr && row < height; ++row)  // OpenGL's rows go upwards
    std::memcpy(data + static_cast<std::ptrdiff_t>(stride) * row,
                pixels.data() + static_cast<std::ptrdiff_t>(width) * 4 * (height - 1 - row),
                static_cast<std::size_t>(width) * 4);
  cairo_surface_mark_dirty(surface);
  AtomicFile output(path, replace);
  const cairo_status_t status = cairo_surface_write_to_png(surface, output.part().c_str());
  cairo_surface_destroy(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    throw FileError(
        fmt::format("{}: the picture cannot be written ({})", path.string(), cairo_status_to_string(status)));
  output.commit();
}

}  // namespace

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

void choose_layout(session::Session& session, const std::string& name) {
  std::vector<std::string> names;
  for (const NamedLayout& layout : named_layouts()) {
    if (lower_case(layout.name) == lower_case(name)) return Workspace::choose(session, layout.name);
    names.emplace_back(layout.name);
  }
  const std::filesystem::path folder = session::settings_folder() / "layouts";
  if (auto own = session::read_arrangement(folder, name)) return session.arrange(std::move(*own));
  std::ranges::copy(session::arrangement_names(folder), std::back_inserter(names));
  throw UsageError(fmt::format("--layout: '{}' is not one of {}", name, fmt::join(names, ", ")));
}

void open_what_was_asked_for(WindowApp& app, const WindowRequest& request) {
  if (!request.layout.empty()) choose_layout(app.session(), request.layout);
  if (!request.view.empty()) app.session().choose_view(request.view);
  app.session().choose_look(request.look);
  app.session().set_figure_settings(request.settings);
  const session::Keep keep{!request.view.empty(), request.look != figures::KeyspaceLook(),
                           request.settings != session::FigureSettings(), !request.layout.empty(),
                           request.fresh};
  if (!request.path.empty()) app.session().open(request.path, request.selection, keep);
  if (!request.live) return;
  app.ui().dialogs().live_form().fill(*request.live);
  if (can_start(*request.live)) {
    app.session().start_live(session::make_live_capture(*request.live), request.selection, request.live->out,
                             request.live->paused);
    app.ui().dialogs().live_form().started();
  } else {
    app.ui().dialogs().open(Dialog::kLive);
  }
}

// A theme or size of the command line's was meant for this time.
void remember(WindowApp& app, const WindowRequest& request) {
  app.ui().note_arrangement();
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
  const session::RunTile& tile = state.selected();
  if (tile.picture && !tile.picture->refusal.empty()) throw UsageError(tile.picture->refusal);
  if (const std::string& error = tile.figure(state.view).made.error; !error.empty()) throw Error(error);
}

void take_screenshot(WindowApp& app, const WindowRequest& request) {
  while (app.session().owes_picture()) {
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

namespace {

constexpr std::int64_t kLeastSide = 320, kMostSide = 16384;

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "window.json"; }

// A side in pixels; 0 where there is none that could be one.
int side_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() ? 0 : static_cast<int>(json_integer(*found, kLeastSide, kMostSide).value_or(0));
}

}  // namespace

Settings load_settings(const std::filesystem::path& folder) {
  Settings settings;
  if (folder.empty()) return settings;
  const nlohmann::json json = session::read_settings(file_in(folder));
  const auto light = json.find("light");
  if (light != json.end() && light->is_boolean()) settings.light = light->get<bool>();
  settings.width = side_in(json, "width");
  settings.height = side_in(json, "height");
  if (settings.width == 0 || settings.height == 0) settings.width = settings.height = 0;
  return settings;
}

void save_settings(const std::filesystem::path& folder, const Settings& settings) {
  if (folder.empty()) return;
  session::write_settings(
      file_in(folder), {{"light", settings.light}, {"width", settings.width}, {"height", settings.height}});
}

namespace {

constexpr double kIdleWaitSeconds = 30;  // nothing changes without an event
constexpr double kLiveWaitSeconds = FrameRate::kLeastWaitSeconds;
constexpr double kAnimationSeconds = 0.016;
constexpr double kTypingSeconds = 0.4;  // the text cursor blinks

std::atomic<bool> asked_to_close = false;

// How long the loop may sleep: as long as nothing moves by itself.
double waiting_time(WindowApp& app) {
  const auto live = app.session().live_status();
  if (app.session().state().playing) return kAnimationSeconds * 2;
  if (live && live->going_on()) return kLiveWaitSeconds;
  if (!app.session().state().jobs.empty()) return kLiveWaitSeconds;
  if (ImGui::GetIO().WantTextInput) return kTypingSeconds;
  return kIdleWaitSeconds;
}

// Seconds until the next frame may be drawn: while a model runs, frames wait.
double frame_wait(WindowApp& app, const FrameRate& rate) {
  const auto live = app.session().live_status();
  if (!live || !live->going_on() || app.session().state().playing) return 0;
  return rate.wait(FrameRate::Clock::now());
}

}  // namespace

void request_close() {
  asked_to_close = true;
  GlfwWindow::wake();
}

bool close_requested() { return asked_to_close; }

void run_loop(WindowApp& app, const std::function<bool()>& done) {
  int frames = kSettlingFrames;
  FrameRate rate;
  while (!app.window().should_close() && !app.ui().wants_close() && !asked_to_close) {
    app.window().wait_events(frames > 0 ? frame_wait(app, rate) : waiting_time(app));
    const bool input = app.take_input();
    if (input) rate.note_input(FrameRate::Clock::now());
    if (done && done()) return;
    // Taking in what has come has workers read more, which takes the processor from the model as well.
    if (frame_wait(app, rate) > 0) continue;
    const auto began = FrameRate::Clock::now();
    const bool typing = ImGui::GetIO().WantTextInput;
    const bool live = app.session().live_status() && app.session().live_status()->going_on();
    const bool changed = app.session().drain();
    const auto& state = app.session().state();
    const bool working = !state.jobs.empty();
    if (input || changed || typing || live || working || state.playing)
      frames = std::max(frames, state.playing || live || working ? 1 : kSettlingFrames);
    if (frames == 0) continue;
    --frames;
    app.handle_input();
    app.draw_frame();
    app.window().swap();
    rate.note_frame(began, FrameRate::Clock::now());
    if (app.ui().wants_frames()) frames = std::max(frames, 2);
    app.write_state();
  }
}

}  // namespace keyscope::window
