#pragma once

#include <span>

#include "analysis/statistics.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/labels.hpp"

namespace keyscope::figures {

// How values are spread, as it is drawn: a bar from the 5th to the 95th percentile with the median on it.
// Gathers any number of them into two series of a panel.
class SpreadSeries {
 public:
  SpreadSeries(std::string id, std::string label, Colour colour, Marker marker, float size_px = 4);

  // At one place; values that are not finite are left out, and nothing is drawn where none remain.
  void add(double x, std::span<const double> values);
  void add(double x, const analysis::Percentiles& at);
  void add(double x, double low, double middle, double high);

  // Draws all of it so far to the right of x.
  void dodge(float pt) { bars_.dodge_pt = middles_.dodge_pt = pt; }

  // Appends what was gathered.
  void put_into(Panel& panel) &&;

 private:
  LineSeries bars_;
  PointSeries middles_;
};

// Means with their intervals, and a line through the means: one curve of a panel. Where a mean has no
// interval (NaN), it stands alone; where there is no mean, the line is broken.
class MeanCurve {
 public:
  //   dodge_pt: drawn so far to the right of x, so that curves do not cover each other
  MeanCurve(const std::string& label, const PolicyLooks::Look& look, float dodge_pt = 0);

  void add(double x, double low, double mean, double high);

  // Appends the line and then what was gathered.
  void put_into(Panel& panel) &&;

 private:
  SpreadSeries marks_;
  LineSeries line_;
};

}  // namespace keyscope::figures
