#pragma once

#include <array>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

inline constexpr int kColourMapSize = 256;
inline constexpr Colour kMissing{0xD9, 0xD9, 0xD9};  // NaN in a heatmap, on a light ground

// The map's colours from low to high, the same for files and for the window's colour table texture.
//   kViridis: after matplotlib's viridis (CC0), 17 of its colours, between them linear
//   kDiverging: after ColorBrewer's RdBu, blue for negative and red for positive; white is the middle
const std::array<Colour, kColourMapSize>& colour_table(ColourMap map);

// Where a value lies on the heatmap's scale, in [0, 1]; NaN stays NaN. On a logarithmic scale values <= 0 are
// 0.
float scale_position(const Heatmap& heatmap, float value);

// The colour that a value is drawn in.
Colour colour_of(const Heatmap& heatmap, float value);

}  // namespace keyscope::figures
