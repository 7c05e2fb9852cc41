#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "app/drawing/cairo_painter.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::figures {

// Whether a path asks for an animation: .apng.
bool is_animation_path(const std::filesystem::path& path);

struct Animation {
  std::int64_t n_frames = 0;  // at least 1
  std::function<Figure(std::int64_t frame)> frame;
  double seconds = 0.4;  // that a frame stays; the last one five times as long
};

// Draws figures one after another into an animated PNG (PNG 3rd edition, 4.9), which browsers, slides and
// messages play, over and over; what plays none shows the last frame. Axes and colour scales are those of the
// last frame, which must cover the others; a frame holds what has changed since the one before.
//   progress: told how many frames of how many are drawn; what it throws ends it, and no file appears; may be
//   empty
//   throws UsageError where there is no frame or they are too many, and as draw_to_file does
void draw_animation(const Animation& animation, const std::filesystem::path& path, const PageOptions& options,
                    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace keyscope::figures
