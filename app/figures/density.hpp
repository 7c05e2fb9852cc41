#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

// Whether a series of a key space is of keys, each once: not of queries, and not of marks about keys.
bool is_of_keys(const PointSeries& series);

// The panel without them: what is drawn over hexagons.
Panel without_keys(const Panel& panel);

// A hexagon of the plane with what lies in it.
struct DensityCell {
  double x = 0, y = 0;  // its middle, in the plane's units
  std::int64_t n = 0;   // keys in it, at least 1
  Colour colour;        // the mean of their colours
  float opacity = 0;    // by the logarithm of n, beside the fullest; less where all of them stand back
};

inline constexpr std::size_t kNamedPeaks = 12;  // at most

// A hexagon that is fuller than those around it, by the token that most of its keys are of.
struct DensityPeak {
  double x = 0, y = 0;
  std::int64_t n = 0;
  std::string label;  // "·the 12"
};

struct Density {
  std::vector<DensityCell> cells;
  std::vector<DensityPeak> peaks;  // the fullest first
};

// The keys of a panel that lie in a part of its plane, counted in regular hexagons whose grid stands still in
// the plane.
//   hidden: ids of series that are left out
//   x_unit, y_unit: lengths of a unit on the screen or page; radius: of a hexagon, as long as these
//   n_peaks: at most; none where the panel does not know its tokens' texts
Density density_of(const Panel& panel, const std::vector<std::string>& hidden, const Extent& part,
                   double x_unit, double y_unit, double radius, std::size_t n_peaks);

// The corners of a hexagon about (0, 0) with this radius: x and y in turn.
std::vector<double> hexagon(double radius);

}  // namespace keyscope::figures
