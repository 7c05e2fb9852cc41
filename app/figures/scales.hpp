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

// The colours of categories, from the first on; they begin again where these end.
Colour category_colour(std::size_t category);

// Where a value lies on a scale, in [0, 1]; NaN stays NaN. On a logarithmic scale values <= 0 are 0.
float scale_position(const ColourScale& scale, float value);

// The colour that a value is drawn in.
Colour colour_of(const ColourScale& scale, float value);

// The scale that a panel's colours are read on: of its heatmap, or of its points' values; null: it has none.
const ColourScale* colour_scale_of(const Panel& panel);

// Gives the points of all panels one scale, so that they can be compared by eye; none where the scales are of
// different quantities, as scores of different policies are.
void share_point_scales(std::vector<Panel>& panels);

}  // namespace keyscope::figures
