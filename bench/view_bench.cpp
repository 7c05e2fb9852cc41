// Frames per second of the window while a key space is panned, or zoomed: then every point is drawn anew in
// every frame.
//   LIBGL_ALWAYS_SOFTWARE=1 xvfb-run -a -s "-screen 0 1280x800x24" view_bench pan|zoom [POINTS [FRAMES]]

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "app/window/motion_benchmark.hpp"
#include "tests/app/session/synthetic_recording.hpp"

int main(int argc, char** argv) {
  const std::string_view motion = argc > 1 ? argv[1] : "";
  const long n_points = argc > 2 ? std::atol(argv[2]) : 100'000;
  const int n_frames = argc > 3 ? std::atoi(argv[3]) : 300;
  if ((motion != "pan" && motion != "zoom") || n_points < 1 || n_frames < 1) {
    fmt::print(stderr, "usage: view_bench pan|zoom [POINTS [FRAMES]]\n");
    return 2;
  }
  try {
    keyscope::session::SyntheticSize size{.n_layers = 1, .n_kv_heads = 1, .n_tokens = n_points};
    size.budget = n_points / 4;
    const auto recording = std::make_shared<keyscope::session::SyntheticRecording>(size);
    const auto kind = motion == "pan" ? keyscope::window::Motion::kPan : keyscope::window::Motion::kZoom;
    const auto times = keyscope::window::measure_motion(recording, kind, n_frames, 1280, 800);
    fmt::print(
        "{}: {} points, {} drawn anew in the last frame, 1280 x 800: {:.1f} frames a second, median {:.1f} "
        "ms, "
        "p99 {:.1f} ms\n",
        motion, n_points, times.points_drawn, times.frames_per_second(), times.median_ms(), times.p99_ms());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "view_bench: {}\n", error.what());
    return 1;
  }
}
