#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"

namespace keyscope::sweep {

inline std::vector<Cell> cells_of(const SweepFolder& folder, const Plan& plan) {
  std::vector<Cell> cells;
  for (CellReader reader(folder, plan); auto cell = reader.next();) cells.push_back(std::move(*cell));
  return cells;
}

// Writes a plan of these cells, whose number it gets.
inline void write_plan(const SweepFolder& folder, Plan& plan, const std::vector<Cell>& cells) {
  plan.n_cells = static_cast<std::int64_t>(cells.size());
  folder.write([&](const EachCell& each) {
    for (const Cell& cell : cells) each(cell);
    return plan;
  });
}

}  // namespace keyscope::sweep
