#include "app/figures/spread.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace keyscope::figures {

SpreadSeries::SpreadSeries(std::string id, std::string label, Colour colour, Marker marker, float size_px) {
  bars_.id = id + "_spread";
  bars_.colour = middles_.colour = colour;
  middles_.id = std::move(id);
  middles_.label = std::move(label);
  middles_.marker = marker;
  middles_.size_px = size_px;
}

void SpreadSeries::add(double x, std::span<const double> values) { add(x, analysis::percentiles_of(values)); }

void SpreadSeries::add(double x, const analysis::Percentiles& at) {
  if (!std::isnan(at.median)) add(x, at.p05, at.median, at.p95);
}

void SpreadSeries::add(double x, double low, double middle, double high) {
  const auto at = static_cast<float>(x);
  for (const double end : {low, high}) {
    bars_.x.push_back(at);
    bars_.y.push_back(static_cast<float>(end));
  }
  bars_.x.push_back(at);
  bars_.y.push_back(std::numeric_limits<float>::quiet_NaN());  // bars are not joined
  middles_.x.push_back(at);
  middles_.y.push_back(static_cast<float>(middle));
}

void SpreadSeries::put_into(Panel& panel) && {
  panel.lines.push_back(std::move(bars_));
  panel.points.push_back(std::move(middles_));
}

MeanCurve::MeanCurve(const std::string& label, const PolicyLooks::Look& look, float dodge_pt)
    : marks_(label, label, look.colour, look.marker, 6) {
  marks_.dodge(dodge_pt);
  line_.id = label + "_curve";
  line_.colour = look.colour;
  line_.dodge_pt = dodge_pt;
}

void MeanCurve::add(double x, double low, double mean, double high) {
  line_.x.push_back(static_cast<float>(x));
  line_.y.push_back(std::isfinite(mean) ? static_cast<float>(mean) : std::numeric_limits<float>::quiet_NaN());
  if (std::isfinite(mean))
    marks_.add(x, std::isfinite(low) ? low : mean, mean, std::isfinite(high) ? high : mean);
}

void MeanCurve::put_into(Panel& panel) && {
  panel.lines.push_back(std::move(line_));
  std::move(marks_).put_into(panel);
}

}  // namespace keyscope::figures
