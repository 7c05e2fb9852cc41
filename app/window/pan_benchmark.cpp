#include "app/window/pan_benchmark.hpp"

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

void settle(WindowApp& app) {
  while (app.session().busy()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    app.session().drain();
  }
  app.session().drain();
}

void draw_panned_frame(WindowApp& app, int frame) {
  const float angle = 6.2831853F * static_cast<float>(frame) / kTurnFrames;
  app.ui().keyspace().view().pan(kStepPx * std::cos(angle), kStepPx * std::sin(angle));
  app.window().wait_events(0);
  app.draw_frame();
  app.window().swap();
  glFinish();
}

}  // namespace

PanTimes measure_panning(std::shared_ptr<const recording::Recording> recording, int n_frames, int width,
                         int height) {
  if (!has_display()) throw Error("there is no display to measure on; run this under xvfb-run");
  WindowApp::Options options;
  options.width = width;
  options.height = height;
  options.scale = 1;
  WindowApp app(options);
  app.session().show(std::move(recording));
  settle(app);
  for (int frame = 0; frame < kWarmUpFrames; ++frame) draw_panned_frame(app, frame);

  PanTimes times;
  const auto started = Clock::now();
  for (int frame = 0; frame < n_frames; ++frame) {
    const auto before = Clock::now();
    draw_panned_frame(app, frame);
    times.frame_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - before).count());
  }
  times.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  times.points_drawn = app.ui().keyspace().points_drawn();
  std::ranges::sort(times.frame_ms);
  return times;
}

}  // namespace keyscope::window
