#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::figures {

// What stands along an axis or a colour bar, on the screen and on a page alike.
// "log volume [nats]"; without brackets where there are no units.
std::string name_with_units(const std::string& name, const std::string& units);

// Of an axis inside [low, high]: its categories where it has any, else numbers.
//   n_wanted: as of linear_ticks; first_cell: where a heatmap's cells begin, so that all numbers are whole,
//   and each stands at the middle of its cell
std::vector<Tick> ticks_of(const Axis& axis, double low, double high, int n_wanted,
                           std::optional<double> first_cell = {});

// A label beside a colour bar, at a share of its height from the bottom.
struct ScaleTick {
  double share = 0;
  std::string label;
};

// Of a colour scale: numbers, or its categories from the top, in their middles.
//   category_share: of the bar's height that a category takes
std::vector<ScaleTick> ticks_of(const ColourScale& scale, int n_wanted, double category_share);

struct Range {
  double low = 0, high = 1;

  static constexpr Range none();  // which nothing was included in yet
  double width() const { return high - low; }
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

constexpr Range Range::none() {
  return {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
}

// Of a page or a window, from its top left corner, y downwards.
template <class Length>
struct Rectangle {
  Length x = 0, y = 0, width = 0, height = 0;

  Length right() const { return x + width; }
  Length bottom() const { return y + height; }
  bool empty() const { return !(width > 0 && height > 0); }
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

inline constexpr int kColourMapSize = 256;
inline constexpr Colour kMissing{0xD9, 0xD9, 0xD9};  // NaN in a heatmap, on a light background

// The map's colours from low to high, the same for files and for the window's colour table texture.
//   kViridis: after matplotlib's viridis (CC0), 17 of its colours, between them linear
//   kDiverging: after ColorBrewer's RdBu, blue for negative and red for positive; white is the middle
const std::array<Colour, kColourMapSize>& colour_table(ColourMap map);

// The colours of a scale's categories: its own, else those of categories in general, from the first on; they
// begin again where these end.
Colour category_colour(const ColourScale& scale, std::size_t category);

// A heatmap's scale from 0 to its largest value, or to 1 where none is above 0; a logarithmic one from the
// smallest value above 0 within five decades of the largest.
void fit_to_values(Heatmap& heatmap);

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
