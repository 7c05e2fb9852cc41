// Frames per second of the window while a key space is panned.
//   LIBGL_ALWAYS_SOFTWARE=1 xvfb-run -a -s "-screen 0 1280x800x24" view_bench [POINTS [FRAMES]]

#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fmt/format.h>

#include "app/window/pan_benchmark.hpp"
#include "tests/app/session/synthetic_recording.hpp"

int main(int argc, char** argv) {
  const long n_points = argc > 1 ? std::atol(argv[1]) : 100'000;
  const int n_frames = argc > 2 ? std::atoi(argv[2]) : 300;
  if (n_points < 1 || n_frames < 1) {
    fmt::print(stderr, "usage: view_bench [POINTS [FRAMES]]\n");
    return 2;
  }
  try {
    keyscope::session::SyntheticSize size{.n_layers = 1, .n_kv_heads = 1, .n_tokens = n_points};
    size.budget = n_points / 4;
    const auto recording = std::make_shared<keyscope::session::SyntheticRecording>(size);
    const auto times = keyscope::window::measure_panning(recording, n_frames, 1280, 800);
    fmt::print(
        "{} points, {} of them drawn, 1280 x 800: {:.1f} frames a second, median {:.1f} ms, p99 {:.1f} ms\n",
        n_points, times.points_drawn, times.frames_per_second(), times.median_ms(), times.p99_ms());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "view_bench: {}\n", error.what());
    return 1;
  }
}
