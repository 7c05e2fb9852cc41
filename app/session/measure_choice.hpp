#pragma once

#include <optional>
#include <span>
#include <string>

#include "app/figures/head_measure.hpp"

namespace keyscope::session {

// The measures that the window colours heads by: those of `figure head-map`.
using MeasureChoice = figures::HeadMeasure;

inline std::span<const MeasureChoice> measure_choices() { return figures::head_measures(); }

// The measure's place among them; 0 for an unknown id.
std::size_t measure_index(std::string_view id);

// "0.913", "−0.2", or "–" for a value that does not exist.
std::string format_measure(const MeasureChoice& choice, const std::optional<double>& value);

// "Log volume (nats)": the label with its unit.
std::string measure_label(const MeasureChoice& choice);

}  // namespace keyscope::session
