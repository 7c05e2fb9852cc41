#include "app/window/live_benchmark.hpp"

#include <chrono>
#include <thread>

#include "base/errors.hpp"
#include "app/session/live.hpp"
#include "app/window/loop.hpp"
#include "app/window/window.hpp"
#include "app/window/window_app.hpp"

namespace keyscope::window {
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
  app.window().take_input();
}

// A window of its own each time: what an earlier run left in memory is not looked at. It is open before the
// run begins, as it is for whoever starts one.
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
    // Whoever comes second finds a warmer machine.
    if (run % 2 == 0) alone();
    in_window();
    if (run % 2 != 0) alone();
    if (benchmark.on_run) benchmark.on_run(run + 1, benchmark.repeat);
  }
  return times;
}

}  // namespace keyscope::window
