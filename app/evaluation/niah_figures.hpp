#pragma once

#include <vector>

#include "app/evaluation/niah.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::evaluation {

// A row of JSON cells for every length and depth.
std::vector<nlohmann::ordered_json> niah_cells(const NiahTask& task);

// "niah-recall": recall by length and depth, a heatmap for every policy, budget and block, on one scale from
// 0 to
// 1. "niah-difference": the same less that of the full cache at that block size, from -1 to 1, which is left
// out where there is nothing but the full cache.
//   source: KeyDiff (arXiv 2504.15364), Figs. 6 and 19
std::vector<figures::Figure> niah_figures(const TaskReport& report, const NiahTask& task);

}  // namespace keyscope::evaluation
