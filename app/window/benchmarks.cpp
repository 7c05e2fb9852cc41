#include "app/window/benchmarks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>

#include <epoxy/gl.h>

#include "app/display/gl_objects.hpp"
#include "app/session/live.hpp"
#include "app/session/live_request.hpp"
#include "app/window/window.hpp"
#include "app/window/window_app.hpp"
#include "base/errors.hpp"

namespace keyscope::window {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUpFrames = 10;
constexpr int kTurnFrames = 40;  // a slow circle, so that the points stay in sight
constexpr float kStepPx = 4;
constexpr double kZoom = 1.5;
constexpr float kTurn = 6.2831853F;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

WindowApp::Options app_options(const ViewBenchmark& benchmark) {
  WindowApp::Options options;
  options.width = benchmark.width;
  options.height = benchmark.height;
  options.scale = 1;
  options.visible = false;
  return options;
}

class Rehearsal {
 public:
  explicit Rehearsal(const ViewBenchmark& benchmark)
      : benchmark_(benchmark), app_(app_options(benchmark)), session_(app_.session()) {
    target_.resize(benchmark.width, benchmark.height);
  }

  ViewTimes run() {
    ViewTimes times;
    const auto started = Clock::now();
    session_.choose_view(benchmark_.view);
    benchmark_.open(session_);
    draw_until_shown();
    times.opened_ms = ms_since(started);
    settle();
    for (const Gesture gesture : benchmark_.gestures) times.gestures.push_back(measure(gesture));
    return times;
  }

 private:
  void draw() {
    glBindFramebuffer(GL_FRAMEBUFFER, target_.framebuffer());
    app_.draw_frame(benchmark_.width, benchmark_.height);
    glFinish();
  }

  void check() const {
    if (benchmark_.cancelled != nullptr && *benchmark_.cancelled)
      throw Cancelled("interrupted; a benchmark that is not complete says nothing");
    const auto& state = session_.state();
    if (!state.open_error.empty()) throw FileError(state.open_error);
    if (state.notice.error) throw UsageError(state.notice.text);  // of the selection that was asked for
    if (const auto& error = state.selected().figure(state.view).made.error; !error.empty())
      throw UsageError(error);
  }

  bool shown() const {
    const auto& state = session_.state();
    const session::RunTile& tile = state.selected();
    if (!state.loaded() || tile.reading) return false;
    return session::is_figure_view(state.view)
               ? tile.figure(state.view).made.figure != nullptr && !tile.figure(state.view).making
               : tile.points && tile.points->head == state.head();
  }

  // As the window's loop: takes in what workers bring as it comes.
  template <typename Condition>
  void drain_until(const Condition& done) {
    while (!done()) {
      check();
      session_.drain();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  void draw_until_shown() {
    drain_until([&] { return shown(); });
    draw();
  }

  void settle() {
    drain_until([&] { return !session_.busy(); });
    session_.drain();
    check();
    draw();
  }

  PlotView* plot() {
    if (session_.state().view == session::kKeyspaceView) return &app_.ui().keyspace().view();
    if (!session::is_figure_view(session_.state().view)) return nullptr;
    return app_.ui().figure_view().first_plot();
  }

  GestureTimes measure(Gesture gesture) {
    const bool needs_plot =
        gesture == Gesture::kPan || gesture == Gesture::kZoom || gesture == Gesture::kHover;
    if (needs_plot && plot() == nullptr) throw UsageError("this view has no plot to pan, zoom or point at");
    // Closer than fitted, so that panning brings points into sight.
    if (gesture == Gesture::kPan || gesture == Gesture::kZoom) plot()->zoom_at(middle(*plot()), kZoom);
    for (int frame = 0; frame < kWarmUpFrames; ++frame) perform(gesture, frame);
    GestureTimes times;
    times.gesture = gesture;
    const auto started = Clock::now();
    for (int frame = 0; frame < benchmark_.n_frames; ++frame) {
      check();
      const auto before = Clock::now();
      perform(gesture, frame);
      times.ms.push_back(ms_since(before));
      if (benchmark_.on_frame) benchmark_.on_frame(++done_);
    }
    times.seconds = ms_since(started) / 1e3;
    times.points_drawn = app_.ui().keyspace().points_drawn();
    std::ranges::sort(times.ms);
    app_.point_at(std::nullopt);
    return times;
  }

  static Pixel middle(const PlotView& view) {
    return {view.left() + 0.5F * view.width(), view.top() + 0.5F * view.height()};
  }

  void perform(Gesture gesture, int frame) {
    const float angle = kTurn * static_cast<float>(frame) / kTurnFrames;
    switch (gesture) {
      case Gesture::kPan:
        plot()->pan(std::round(kStepPx * std::cos(angle)), std::round(kStepPx * std::sin(angle)));
        break;
      case Gesture::kZoom:
        plot()->zoom_at(middle(*plot()), frame % kTurnFrames < kTurnFrames / 2 ? 1.01 : 1 / 1.01);
        break;
      case Gesture::kHover: {
        const float radius = 0.3F * std::min(plot()->width(), plot()->height());
        const Pixel at = middle(*plot());
        app_.point_at(Pixel{at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)});
        break;
      }
      case Gesture::kPlay:
        session_.set_block(frame % std::max<std::int64_t>(1, session_.state().run().blocks_done));
        break;
      case Gesture::kHeads:
        go_to_next_head();
        return;
      case Gesture::kSettle:
        go_to_next_head();
        drain_until([&] { return !session_.state().selected().settling; });
        draw();
        return;
      case Gesture::kBudget:
        session_.ask_what_if({session_.state().usual_what_if(), 0.05 + 0.01 * (frame % 90)});
        draw_until_shown();
        return;
    }
    session_.drain();
    draw();
  }

  // Along the KV heads, then on to the next layer.
  void go_to_next_head() {
    const auto& state = session_.state();
    const auto& layers = state.info->layers;
    const auto here = std::ranges::find(layers, state.selection.layer) - layers.begin();
    const int kv_head =
        (state.selection.kv_head + 1) % state.info->model.heads(state.selection.layer).n_kv_heads;
    const auto layer = kv_head == 0 ? (here + 1) % std::ssize(layers) : here;
    session_.select_head(layers[layer], kv_head);
    draw_until_shown();
  }

  const ViewBenchmark& benchmark_;
  WindowApp app_;
  session::Session& session_;
  RenderTarget target_;
  std::int64_t done_ = 0;
};

}  // namespace

std::span<const NamedGesture> named_gestures() {
  static constexpr std::array kGestures{
      NamedGesture{Gesture::kPan, "pan", "the plot moves by some pixels a frame"},
      NamedGesture{Gesture::kZoom, "zoom", "the plot is scaled by a hundredth a frame"},
      NamedGesture{Gesture::kHover, "hover", "the pointer moves over the plot"},
      NamedGesture{Gesture::kPlay, "play", "the next block is shown"},
      NamedGesture{Gesture::kHeads, "heads", "the next head is chosen, until its keys are drawn"},
      NamedGesture{Gesture::kSettle, "settle",
                   "likewise, until they are drawn in the basis of all keys and queries"},
      NamedGesture{Gesture::kBudget, "budget",
                   "the budget moves by a hundredth, until what a policy would keep is drawn"}};
  return kGestures;
}

ViewTimes measure_view(const ViewBenchmark& benchmark) {
  if (!has_display()) throw Error("there is no display to measure on; run this under xvfb-run");
  return Rehearsal(benchmark).run();
}

namespace {

using session::LiveStage;
using session::LiveStatus;

void check(const LiveBenchmark& benchmark) {
  if (benchmark.cancelled != nullptr && *benchmark.cancelled)
    throw Cancelled("interrupted; a benchmark that is not complete says nothing");
}

double seconds_of(const LiveStatus& status) {
  if (status.stage != LiveStage::kDone) throw Error("the run did not end: " + status.message);
  return std::chrono::duration<double>(status.ended - status.began).count();
}

double run_alone(const LiveBenchmark& benchmark) {
  session::LiveRunner runner(session::make_live_capture(benchmark.request), nullptr);
  while (runner.status().going_on()) {
    check(benchmark);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return seconds_of(runner.status());
}

void draw_settled(WindowApp& app) {
  for (int frame = 0; frame < kSettlingFrames; ++frame) {
    app.window().wait_events(0);
    app.draw_frame();
    app.window().swap();
  }
  app.take_input();
}

// A window of its own each time: what an earlier run left in memory is not looked at. It is open before the
// run begins, as it is for a user who starts one.
double run_in_window(const LiveBenchmark& benchmark) {
  WindowApp::Options options;
  options.width = benchmark.width;
  options.height = benchmark.height;
  options.scale = 1;
  WindowApp app(options);
  draw_settled(app);
  app.session().start_live(session::make_live_capture(benchmark.request));
  run_loop(app, [&] {
    check(benchmark);
    const auto status = app.session().live_status();
    return !status || !status->going_on();
  });
  const auto status = app.session().live_status();
  if (!status) throw Error("the run was closed while it was measured");
  return seconds_of(*status);
}

}  // namespace

LiveTimes measure_live(const LiveBenchmark& benchmark) {
  if (!has_display()) throw Error("there is no display to measure on; run this under xvfb-run");
  LiveTimes times;
  for (int run = 0; run < benchmark.repeat; ++run) {
    const auto alone = [&] { times.alone.push_back(run_alone(benchmark)); };
    const auto in_window = [&] { times.in_window.push_back(run_in_window(benchmark)); };
    // The second of the two finds a warmer machine.
    if (run % 2 == 0) alone();
    in_window();
    if (run % 2 != 0) alone();
    if (benchmark.on_run) benchmark.on_run(run + 1, benchmark.repeat);
  }
  return times;
}

}  // namespace keyscope::window
