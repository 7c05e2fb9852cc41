#include "app/window/loop.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include <imgui.h>

namespace keyscope::window {
namespace {

constexpr double kIdleWaitSeconds = 30;    // nothing changes without an event
constexpr double kLiveWaitSeconds = 0.25;  // a live run is redrawn at most four times a second
constexpr double kAnimationSeconds = 0.016;
constexpr double kTypingSeconds = 0.4;  // the text cursor blinks

std::atomic<bool> asked_to_close = false;

// How long the loop may sleep: as long as nothing moves by itself.
double waiting_time(WindowApp& app) {
  const auto live = app.session().live_status();
  if (app.session().state().playing) return kAnimationSeconds * 2;
  if (live && live->going_on()) return kLiveWaitSeconds;
  const auto& state = app.session().state();
  if (!state.opening_work.what.empty() || !state.export_work.what.empty()) return kLiveWaitSeconds;
  if (ImGui::GetIO().WantTextInput) return kTypingSeconds;
  return kIdleWaitSeconds;
}

// When frames may be drawn while a model runs: at once where somebody uses the window, else four times a
// second at most, because drawing takes the processor from the model.
class FrameRate {
 public:
  void note_input() { last_input_ = Clock::now(); }
  void note_frame() { last_frame_ = Clock::now(); }

  // Seconds until the next frame may be drawn.
  double wait(WindowApp& app) const {
    const auto live = app.session().live_status();
    if (!live || !live->going_on() || app.session().state().playing) return 0;
    if (seconds_since(last_input_) < kAttentionSeconds) return 0;
    return std::max(0.0, kLiveWaitSeconds - seconds_since(last_frame_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kAttentionSeconds = 1;
  static double seconds_since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }
  Clock::time_point last_input_{}, last_frame_{};
};

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
    app.window().wait_events(frames > 0 ? rate.wait(app) : waiting_time(app));
    const bool typing = ImGui::GetIO().WantTextInput;
    const bool live = app.session().live_status() && app.session().live_status()->going_on();
    const bool changed = app.session().drain();
    if (done && done()) return;
    const auto& state = app.session().state();
    const bool working = !state.opening_work.what.empty() || !state.export_work.what.empty();
    const bool input = app.window().take_input();
    if (input) rate.note_input();
    if (input || changed || typing || live || working || state.playing)
      frames = std::max(frames, state.playing || live || working ? 1 : kSettlingFrames);
    if (frames == 0 || rate.wait(app) > 0) continue;
    --frames;
    app.handle_input();
    app.draw_frame();
    app.window().swap();
    rate.note_frame();
    if (app.ui().wants_frames()) frames = std::max(frames, 2);
    app.write_state();
  }
}

}  // namespace keyscope::window
