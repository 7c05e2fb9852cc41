#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "app/measures/head_measures.hpp"

namespace keyscope::validation {

// What is kept of every prompt and averaged over them. A quantity belongs to a KV head, or to a whole run.
struct Quantity {
  std::string_view id;     // the public name of `analyze --json`
  std::string_view title;  // for people
  std::string_view units;  // empty: none
  std::optional<double> measures::HeadMeasures::*of_head = nullptr;
  std::optional<double> measures::RunMeasures::*of_run = nullptr;
  bool against_full_cache = false;  // says something only of runs that evict
};

// All of them, in the order in which they are reported.
std::span<const Quantity> quantities();

// The one of that id; there is one, or the caller is wrong.
const Quantity& quantity(std::string_view id);

// A run's value: itself, or the mean over the heads that have one, of one layer or (-1) of all.
std::optional<double> value_of(const measures::RunMeasures& run, const Quantity& quantity, int layer = -1);

// Mean over the heads that have both of a - b, or the difference of the runs' values.
std::optional<double> difference_of(const measures::RunMeasures& a, const measures::RunMeasures& b,
                                    const Quantity& quantity, int layer = -1);

}  // namespace keyscope::validation
