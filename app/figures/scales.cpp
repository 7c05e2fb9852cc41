#include "app/figures/scales.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace keyscope::figures {
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

// Of Okabe & Ito's palette, without the green and the yellow that landmarks and light grounds take.
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

Colour category_colour(std::size_t category) { return kCategoryColours[category % kCategoryColours.size()]; }

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
    return value >= 0 ? category_colour(static_cast<std::size_t>(value)) : kMissing;
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
