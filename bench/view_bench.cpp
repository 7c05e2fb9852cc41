// Frame times of the window on a made-up recording of any size.
//   LIBGL_ALWAYS_SOFTWARE=1 xvfb-run -a -s "-screen 0 1280x800x24" view_bench [POINTS [FRAMES [RUNS
//   [points]]]]
// RUNS, 1 to 4, stand side by side, each with as many points; drawn one by one with the last word.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include <fmt/format.h>

#include "app/window/benchmarks.hpp"
#include "tests/support/synthetic_recording.hpp"

int main(int argc, char** argv) {
  const long n_points = argc > 1 ? std::atol(argv[1]) : 100'000;
  const int n_frames = argc > 2 ? std::atoi(argv[2]) : 300;
  const int n_runs = argc > 3 ? std::atoi(argv[3]) : 1;
  if (n_points < 1 || n_frames < 1 || n_runs < 1 || n_runs > 4) {
    fmt::print(stderr, "usage: view_bench [POINTS [FRAMES [RUNS [points]]]]\n");
    return 2;
  }
  try {
    using keyscope::window::Gesture;
    keyscope::session::SyntheticSize size{.n_layers = 1, .n_kv_heads = 1, .n_tokens = n_points};
    size.budget = n_points / 4;
    size.n_runs = 4;
    const auto recording = std::make_shared<keyscope::session::SyntheticRecording>(size);
    keyscope::window::ViewBenchmark benchmark;
    keyscope::session::SelectionRequest selection{.run = "keydiff"};
    const char* const others[] = {"none", "sink", "tova"};
    for (int run = 1; run < n_runs; ++run) selection.beside.emplace_back(others[run - 1]);
    const bool one_by_one = argc > 4;
    benchmark.open = [&](keyscope::session::Session& session) {
      session.show(recording, selection);
      if (one_by_one) session.choose_look({.density = keyscope::figures::KeyDensity::kPoints});
    };
    benchmark.gestures = {Gesture::kPan, Gesture::kZoom, Gesture::kHover, Gesture::kPlay};
    benchmark.n_frames = n_frames;
    const auto times = keyscope::window::measure_view(benchmark);
    for (std::size_t i = 0; i < times.gestures.size(); ++i)
      fmt::print(
          "{:6} {} x {} points, {} drawn anew in the last frame: {:.1f} frames a second, median {:.1f} ms, "
          "p99 {:.1f} ms\n",
          keyscope::window::named_gestures()[i].name, n_runs, n_points, times.gestures[i].points_drawn,
          times.gestures[i].per_second(), times.gestures[i].median_ms(), times.gestures[i].p99_ms());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "view_bench: {}\n", error.what());
    return 1;
  }
}
