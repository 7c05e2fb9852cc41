#include "app/window/loop.hpp"

#include <algorithm>
#include <atomic>

#include <imgui.h>

#include "app/window/frame_rate.hpp"

namespace keyscope::window {
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
    const bool input = app.window().take_input();
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
