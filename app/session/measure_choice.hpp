#pragma once

#include <optional>
#include <span>
#include <string>

#include "app/figures/figure.hpp"
#include "app/measures/head_measures.hpp"

namespace keyscope::session {

// A measure that the head map can be coloured by; `id` is its name in `analyze --json`.
struct MeasureChoice {
  const char* id;
  const char* label;
  const char* meaning;  // one line for a tooltip
  std::optional<double> measures::HeadMeasures::*value;
  figures::ColourMap colour_map;  // diverging for what has a sign
  int decimals;
};

std::span<const MeasureChoice> measure_choices();

// "0.913", "−0.2", or "–" for a value that does not exist.
std::string format_measure(const MeasureChoice& choice, const std::optional<double>& value);

}  // namespace keyscope::session
