#pragma once

#include <string_view>
#include <vector>

#include "app/adoption/adoption.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::adoption {

// The pictures of a report: "accuracy-by-memory" (a panel a task: score against memory, one line per policy,
// the full cache and the tolerance as lines), where they were measured "first-token-by-memory" and
// "redundancy-by-memory", and "prompt-lengths".
std::vector<figures::Figure> adoption_figures(const Adoption& adoption);

// What they can be called.
std::vector<std::string_view> adoption_figure_names();

}  // namespace keyscope::adoption
