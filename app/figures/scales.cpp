#include "app/figures/scales.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace keyscope::figures {

std::string name_with_units(const std::string& name, const std::string& units) {
  return units.empty() ? name : name + " [" + units + "]";
}

std::vector<Tick> ticks_of(const Axis& axis, double low, double high, int n_wanted,
                           std::optional<double> first_cell) {
  if (axis.categories.empty() && !first_cell) return linear_ticks(low, high, n_wanted, axis.counted);
  std::vector<Tick> ticks;
  if (axis.categories.empty()) {
    const double middle = *first_cell + 0.5 - std::floor(*first_cell + 0.5);
    ticks = linear_ticks(low - middle, high - middle, n_wanted, true);
    for (Tick& tick : ticks) tick.value += middle;
    return ticks;
  }
  for (std::size_t i = 0; i < axis.categories.size(); ++i)
    if (const auto at = static_cast<double>(i); at >= low && at <= high)
      ticks.push_back({at, axis.categories[i]});
  return ticks;
}

std::vector<ScaleTick> ticks_of(const ColourScale& scale, int n_wanted, double category_share) {
  std::vector<ScaleTick> ticks;
  for (std::size_t i = 0; i < scale.categories.size(); ++i)
    ticks.push_back({1 - (static_cast<double>(i) + 0.5) * category_share, scale.categories[i]});
  if (!ticks.empty()) return ticks;
  const auto numbers = scale.logarithmic ? logarithmic_ticks(scale.low, scale.high, n_wanted)
                                         : linear_ticks(scale.low, scale.high, n_wanted);
  for (const Tick& tick : numbers)
    ticks.push_back({scale_position(scale, static_cast<float>(tick.value)), tick.label});
  return ticks;
}

namespace {

constexpr double kMargin = 0.06;  // of the data's width, on either side

void include_finite(Range& range, const std::vector<float>& values) {
  for (const float value : values)
    if (std::isfinite(value)) range.include(value);
}

// Half a category on either side of the first and the last.
void include_categories(Range& range, const Axis& axis) {
  if (axis.categories.empty()) return;
  range.include(-0.4);
  range.include(static_cast<double>(axis.categories.size()) - 0.6);
}

void include_panel(PanelRanges& all, const Panel& panel) {
  for (const PointSeries& series : panel.points) {
    include_finite(all.x, series.x);
    include_finite(all.y, series.y);
    include_finite(all.z, series.z);
  }
  for (const LineSeries& series : panel.lines) {
    include_finite(all.x, series.x);
    include_finite(all.y, series.y);
  }
  for (const BandSeries& series : panel.bands) {
    include_finite(all.x, series.x);
    include_finite(all.y, series.low);
    include_finite(all.y, series.high);
  }
  include_categories(all.x, panel.x);
  include_categories(all.y, panel.y);
}

Range with_margin(const Range& range) {
  const double low = range.low, high = range.high;
  if (low > high) return {-1, 1};
  const double least = std::max(std::abs(low), std::abs(high)) * 1e-6;
  if (high - low > least) return {low - kMargin * (high - low), high + kMargin * (high - low)};
  const double room = std::max(0.5 * std::abs(low), 1e-3);
  return low == 0 ? Range{-1, 1} : Range{low - room, high + room};
}

PanelRanges ranges_with_margin(std::span<const Panel> panels) {
  PanelRanges all{Range::none(), Range::none(), Range::none()};
  for (const Panel& panel : panels) include_panel(all, panel);
  return {with_margin(all.x), with_margin(all.y), with_margin(all.z)};
}

// First to last cell, row 0 at the top: low is what lies at the bottom and at the left.
PanelRanges heatmap_ranges(const Heatmap& heatmap) {
  if (heatmap.values.size() == 0) return {{0, 1}, {1, 0}, {}};
  return {{heatmap.x_first, heatmap.x_last()}, {heatmap.y_last(), heatmap.y_first}, {}};
}

void widen(Range& range, double factor) {
  const double middle = (range.low + range.high) / 2, half = range.width() / 2 * factor;
  range = {middle - half, middle + half};
}

// All cells of all heatmaps, and the data of the panels beside them; y runs downwards, as in every heatmap.
PanelRanges shared_with_heatmaps(const std::vector<Panel>& panels) {
  Range x = Range::none(), y = Range::none();
  for (const Panel& panel : panels) {
    const PanelRanges own = data_ranges(panel);
    for (const double end : {own.x.low, own.x.high}) x.include(end);
    for (const double end : {own.y.low, own.y.high}) y.include(end);
  }
  return {x, {y.high, y.low}, {}};
}

// The part that is drawn of it.
PanelRanges part_ranges(const Panel& panel) {
  const Extent& part = *panel.part;
  const Range y{part.y_low, part.y_high};
  return {{part.x_low, part.x_high}, panel.heatmap ? Range{y.high, y.low} : y, {}};
}

}  // namespace

PanelRanges data_ranges(const Panel& panel) {
  if (panel.part) return part_ranges(panel);
  if (panel.heatmap) return heatmap_ranges(*panel.heatmap);
  return ranges_with_margin({&panel, 1});
}

PanelRanges shared_data_ranges(const std::vector<Panel>& panels) {
  if (!panels.empty() && panels.front().part) return part_ranges(panels.front());
  if (std::ranges::any_of(panels, [](const Panel& panel) { return panel.heatmap.has_value(); }))
    return shared_with_heatmaps(panels);
  return ranges_with_margin(panels);
}

void Extent::include(double x, double y) {
  if (std::isfinite(x) && std::isfinite(y)) include({x, x, y, y});
}

void Extent::include(const Extent& other) {
  x_low = std::min(x_low, other.x_low);
  x_high = std::max(x_high, other.x_high);
  y_low = std::min(y_low, other.y_low);
  y_high = std::max(y_high, other.y_high);
}

bool Extent::contains(const Extent& other) const {
  return other.x_low >= x_low && other.x_high <= x_high && other.y_low >= y_low && other.y_high <= y_high;
}

void equalize(PanelRanges& ranges, double width, double height) {
  const double per_x = std::abs(ranges.x.width()) / width, per_y = std::abs(ranges.y.width()) / height;
  if (!(per_x > 0) || !(per_y > 0)) return;
  if (per_x < per_y)
    widen(ranges.x, per_y / per_x);
  else
    widen(ranges.y, per_x / per_y);
}

namespace {

// Equally spaced along the map; between them at most 6/255 from matplotlib's own table.
constexpr std::array<Colour, 17> kViridisStops{{{0x44, 0x01, 0x54},
                                                {0x48, 0x18, 0x6A},
                                                {0x47, 0x2C, 0x7B},
                                                {0x42, 0x40, 0x86},
                                                {0x3A, 0x52, 0x8B},
                                                {0x33, 0x63, 0x8D},
                                                {0x2C, 0x72, 0x8E},
                                                {0x26, 0x82, 0x8E},
                                                {0x20, 0x91, 0x8C},
                                                {0x1E, 0x9F, 0x88},
                                                {0x27, 0xAE, 0x81},
                                                {0x3D, 0xBC, 0x74},
                                                {0x5C, 0xC9, 0x63},
                                                {0x81, 0xD4, 0x4C},
                                                {0xAB, 0xDC, 0x32},
                                                {0xD5, 0xE2, 0x1A},
                                                {0xFE, 0xE7, 0x24}}};

// ColorBrewer RdBu, 11 classes, turned round.
constexpr std::array<Colour, 11> kDivergingStops{{{0x05, 0x30, 0x61},
                                                  {0x21, 0x66, 0xAC},
                                                  {0x43, 0x93, 0xC3},
                                                  {0x92, 0xC5, 0xDE},
                                                  {0xD1, 0xE5, 0xF0},
                                                  {0xF7, 0xF7, 0xF7},
                                                  {0xFD, 0xDB, 0xC7},
                                                  {0xF4, 0xA5, 0x82},
                                                  {0xD6, 0x60, 0x4D},
                                                  {0xB2, 0x18, 0x2B},
                                                  {0x67, 0x00, 0x1F}}};

// Of Okabe & Ito's palette, without the green and the yellow that landmarks and light backgrounds take.
constexpr std::array<Colour, 6> kCategoryColours{kSkyBlue, kOrange, kVermillion, kGrey, kPurple, kBlack};

std::uint8_t mix(std::uint8_t a, std::uint8_t b, double share) {
  return static_cast<std::uint8_t>(std::lround(a + (b - a) * share));
}

std::array<Colour, kColourMapSize> interpolate(std::span<const Colour> stops) {
  std::array<Colour, kColourMapSize> table;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double at = static_cast<double>(i) * static_cast<double>(stops.size() - 1) / (kColourMapSize - 1);
    const std::size_t below = std::min(static_cast<std::size_t>(at), stops.size() - 2);
    const Colour &a = stops[below], &b = stops[below + 1];
    const double share = at - static_cast<double>(below);
    table[i] = {mix(a.r, b.r, share), mix(a.g, b.g, share), mix(a.b, b.b, share)};
  }
  return table;
}

}  // namespace

const std::array<Colour, kColourMapSize>& colour_table(ColourMap map) {
  static const auto viridis = interpolate(kViridisStops);
  static const auto diverging = interpolate(kDivergingStops);
  return map == ColourMap::kViridis ? viridis : diverging;
}

Colour category_colour(const ColourScale& scale, std::size_t category) {
  return category < scale.category_colours.size() ? scale.category_colours[category]
                                                  : kCategoryColours[category % kCategoryColours.size()];
}

void fit_to_values(Heatmap& heatmap) {
  constexpr float kLogDecades = 1e-5F;  // the log scale's low end, as a share of its high end
  float high = 0, smallest = std::numeric_limits<float>::max();
  for (const float value : heatmap.values.reshaped<Eigen::RowMajor>()) {
    if (std::isnan(value)) continue;
    high = std::max(high, value);
    if (value > 0) smallest = std::min(smallest, value);
  }
  heatmap.high = high > 0 ? high : 1;
  heatmap.low =
      heatmap.logarithmic ? std::max(std::min(smallest, heatmap.high), heatmap.high * kLogDecades) : 0;
}

float scale_position(const ColourScale& scale, float value) {
  if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
  double low = scale.low, high = scale.high, at = value;
  if (scale.logarithmic) {
    if (at <= 0 || low <= 0) return 0;
    low = std::log(low), high = std::log(high), at = std::log(at);
  }
  if (!(high > low)) return 0.5F;  // constant data: the middle of the map
  return static_cast<float>(std::clamp((at - low) / (high - low), 0.0, 1.0));
}

Colour colour_of(const ColourScale& scale, float value) {
  if (!scale.categories.empty())
    return value >= 0 ? category_colour(scale, static_cast<std::size_t>(value)) : kMissing;
  const float at = scale_position(scale, value);
  if (std::isnan(at)) return kMissing;
  return colour_table(scale.colour_map)[static_cast<std::size_t>(std::lround(at * (kColourMapSize - 1)))];
}

const ColourScale* colour_scale_of(const Panel& panel) {
  if (panel.heatmap) return &*panel.heatmap;
  return panel.scale ? &*panel.scale : nullptr;
}

void share_point_scales(std::vector<Panel>& panels) {
  std::vector<ColourScale*> scales;
  for (Panel& panel : panels)
    if (panel.scale) scales.push_back(&*panel.scale);
  if (scales.empty()) return;
  const auto alike = [&](const ColourScale* scale) { return scale->long_name == scales.front()->long_name; };
  if (!std::ranges::all_of(scales, alike)) return;
  float low = scales.front()->low, high = scales.front()->high;
  for (const ColourScale* scale : scales) low = std::min(low, scale->low), high = std::max(high, scale->high);
  for (ColourScale* scale : scales) scale->low = low, scale->high = high;
}

}  // namespace keyscope::figures
