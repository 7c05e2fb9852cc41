#pragma once

#include <cstddef>
#include <vector>

#include "app/figures/page.hpp"

namespace keyscope::figures {

// A point of a panel's series on the page, in points.
struct PlacedPoint {
  double x = 0, y = 0;
  std::size_t series = 0;  // index into the panel's points
  std::size_t at = 0;      // index into the series
  double faded = 0;        // 0 to 1: how far away it looks, in space
};

// The look of a line's markers; its marker must be there.
PointSeries marker_of(const LineSeries& line);

// One marker of a series, at its own size, as in a legend.
void draw_marker(const Page& page, const PointSeries& series, double x, double y);

// All points of a panel in the order given, clipped to `clip`. On a vector page more than `max_vector_points`
// become one image, so that the file stays small.
//   returns whether they did
bool draw_points(const Page& page, const Panel& panel, const std::vector<PlacedPoint>& points,
                 const Box& clip, std::size_t max_vector_points);

}  // namespace keyscope::figures
