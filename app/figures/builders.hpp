#pragma once

#include <span>
#include <string_view>

#include "app/figures/figure.hpp"
#include "app/figures/catalogue.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// What one figure is about: all else of a request says which.
enum class FigureScope { kKvHead, kQueryHead, kRecording };

// A figure as the registry knows it.
struct Builder {
  std::string_view name;
  FigureScope scope;
  bool several_runs;
  std::string_view options;  // that it understands, between spaces
  bool (*is_recorded)(const recording::RecordingInfo&);
  Figure (*build)(const recording::Recording&, const recording::RecordingInfo&, const FigureRequest&);
};

// All of them, in the order in which they are listed for people.
std::span<const Builder> builders();

}  // namespace keyscope::figures
