#include "app/window/motion_benchmark.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <epoxy/gl.h>

#include "analysis/errors.hpp"
#include "app/window/window.hpp"
#include "app/window/window_app.hpp"

namespace keyscope::window {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUpFrames = 10;
constexpr int kTurnFrames = 40;  // a slow circle, so that the points stay in sight
constexpr float kStepPx = 4;
constexpr double kZoom = 1.5;

void settle(WindowApp& app) {
  while (app.session().busy()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    app.session().drain();
  }
  app.session().drain();
}

void move(PlotView& view, Motion motion, int frame) {
  if (motion == Motion::kZoom) {
    const Pixel middle{view.left() + 0.5F * view.width(), view.top() + 0.5F * view.height()};
    view.zoom_at(middle, frame % kTurnFrames < kTurnFrames / 2 ? 1.01 : 1 / 1.01);
    return;
  }
  const float angle = 6.2831853F * static_cast<float>(frame) / kTurnFrames;
  view.pan(std::round(kStepPx * std::cos(angle)), std::round(kStepPx * std::sin(angle)));
}

void draw_moved_frame(WindowApp& app, Motion motion, int frame) {
  move(app.ui().keyspace().view(), motion, frame);
  app.window().wait_events(0);
  app.draw_frame();
  app.window().swap();
  glFinish();
}

}  // namespace

MotionTimes measure_motion(std::shared_ptr<const recording::Recording> recording, Motion motion, int n_frames,
                           int width, int height) {
  if (!has_display()) throw Error("there is no display to measure on; run this under xvfb-run");
  WindowApp::Options options;
  options.width = width;
  options.height = height;
  options.scale = 1;
  WindowApp app(options);
  app.session().show(std::move(recording));
  settle(app);
  // Closer than fitted, so that panning brings points into sight.
  PlotView& view = app.ui().keyspace().view();
  app.draw_frame();
  view.zoom_at({view.left() + 0.5F * view.width(), view.top() + 0.5F * view.height()}, kZoom);
  for (int frame = 0; frame < kWarmUpFrames; ++frame) draw_moved_frame(app, motion, frame);

  MotionTimes times;
  const auto started = Clock::now();
  for (int frame = 0; frame < n_frames; ++frame) {
    const auto before = Clock::now();
    draw_moved_frame(app, motion, frame);
    times.frame_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - before).count());
  }
  times.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  times.points_drawn = app.ui().keyspace().points_drawn();
  std::ranges::sort(times.frame_ms);
  return times;
}

}  // namespace keyscope::window
