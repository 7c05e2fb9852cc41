#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// A cell of a matrix, by what its row and column stand for: token positions, or blocks.
struct MatrixCell {
  std::int64_t row = 0, column = 0;
  float value = 0;  // NaN: there is none
};

// What a cell of a head's matrix says, line by line: which tokens it is about, and its value with what that
// is.
//   figure: its name, "attention"
std::vector<std::string> cell_facts(const recording::RecordingInfo& info, int run, const std::string& figure,
                                    const figures::Heatmap& map, const MatrixCell& cell);

}  // namespace keyscope::session
