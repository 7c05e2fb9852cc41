#pragma once

// What stands along an axis or a colour bar, on the screen and on a page alike.

#include <string>
#include <vector>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::figures {

// "log volume [nats]"; without brackets where there are no units.
std::string name_with_units(const std::string& name, const std::string& units);

// Of an axis inside [low, high]: its categories where it has any, else numbers.
//   n_wanted: as of linear_ticks; cells: the axis counts a heatmap's cells, so that all numbers are whole
std::vector<Tick> ticks_of(const Axis& axis, double low, double high, int n_wanted, bool cells);

// A label beside a colour bar, at a share of its height from the bottom.
struct ScaleTick {
  double share = 0;
  std::string label;
};

// Of a colour scale: numbers, or its categories from the top, in their middles.
//   category_share: of the bar's height that a category takes
std::vector<ScaleTick> ticks_of(const ColourScale& scale, int n_wanted, double category_share);

}  // namespace keyscope::figures
