#pragma once

#include <cstdint>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

struct Range {
  double low = 0, high = 1;
  double width() const { return high - low; }
};

struct PanelRanges {
  Range x, y, z;
};

// What a panel's axes must cover: its finite data with a margin, or a heatmap's cells exactly. One value
// alone gets room around it; no data at all gives [-1, 1].
PanelRanges data_ranges(const Panel& panel);

// The same for several panels together. Where one of them is a heatmap y runs downwards, as its rows do.
PanelRanges shared_data_ranges(const std::vector<Panel>& panels);

// Widens one of x and y about its middle so that a unit is as long on both, in a box of width × height.
void equalize(PanelRanges& ranges, double width, double height);

}  // namespace keyscope::figures
