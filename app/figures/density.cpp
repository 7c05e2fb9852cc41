#include "app/figures/density.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "app/figures/keyspace_data.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::figures {

namespace {

constexpr float kLeastOpacity = 0.2F, kFaded = 0.25F;
constexpr std::int64_t kLeastOfPeak = 3;

// A hexagon by its row and column; those of odd rows lie half a hexagon to the right.
struct Place {
  std::int32_t row = 0, column = 0;
  auto operator<=>(const Place&) const = default;
};

struct PlaceHash {
  std::size_t operator()(const Place& at) const {
    return std::hash<std::uint64_t>{}(static_cast<std::uint64_t>(static_cast<std::uint32_t>(at.row)) << 32 |
                                      static_cast<std::uint32_t>(at.column));
  }
};

// Hexagons that stand on a corner, in lengths of the screen.
class Grid {
 public:
  explicit Grid(double radius) : width_(std::numbers::sqrt3 * radius), height_(1.5 * radius) {}

  // The nearest middle of the rows below and above.
  Place place_of(double x, double y) const {
    const double low = std::floor(y / height_);
    Place best;
    double least = INFINITY;
    for (const double row : {low, low + 1}) {
      const double shift = shift_of(static_cast<std::int32_t>(row));
      const double column = std::round((x - shift) / width_);
      const double distance = std::hypot(x - shift - column * width_, y - row * height_);
      if (distance >= least) continue;
      least = distance;
      best = {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column)};
    }
    return best;
  }

  std::pair<double, double> middle(const Place& at) const {
    return {at.column * width_ + shift_of(at.row), at.row * height_};
  }

  static std::array<Place, 6> around(const Place& at) {
    const int left = at.row % 2 == 0 ? -1 : 0;
    return {{{at.row, at.column - 1},
             {at.row, at.column + 1},
             {at.row - 1, at.column + left},
             {at.row - 1, at.column + left + 1},
             {at.row + 1, at.column + left},
             {at.row + 1, at.column + left + 1}}};
  }

 private:
  double shift_of(std::int32_t row) const { return row % 2 == 0 ? 0 : width_ / 2; }

  double width_, height_;
};

struct Sum {
  std::int64_t n = 0, n_clear = 0;
  std::array<double, 3> clear{}, faded{};  // of colours
};

using Sums = std::unordered_map<Place, Sum, PlaceHash>;

// Calls with every key that is shown in the part.
template <typename Function>
void for_each_key(const Panel& panel, const std::vector<std::string>& hidden, const Extent& part,
                  const Function& function) {
  for (const PointSeries& series : panel.points) {
    if (!is_of_keys(series) || std::ranges::find(hidden, series.id) != hidden.end()) continue;
    for (std::size_t i = 0; i < series.x.size(); ++i)
      if (part.contains(series.x[i], series.y[i])) function(series, i);
  }
}

Colour colour_of_key(const Panel& panel, const PointSeries& series, std::size_t at) {
  if (!panel.scale || series.value.empty()) return series.colour;
  const float value = series.value[at];
  return std::isnan(value) ? kGrey : colour_of(*panel.scale, value);
}

Colour mean_colour(const Sum& sum) {
  const bool clear = sum.n_clear > 0;
  const auto& total = clear ? sum.clear : sum.faded;
  const auto n = static_cast<double>(clear ? sum.n_clear : sum.n);
  const auto mean = [&](int channel) { return static_cast<std::uint8_t>(std::lround(total[channel] / n)); };
  return {mean(0), mean(1), mean(2)};
}

// Equally full ones beside each other are one peak.
bool is_peak(const Sums& sums, const Place& at, std::int64_t n) {
  if (n < kLeastOfPeak) return false;
  return std::ranges::none_of(Grid::around(at), [&](const Place& beside) {
    const auto found = sums.find(beside);
    return found != sums.end() && (found->second.n > n || (found->second.n == n && beside < at));
  });
}

std::vector<Place> peaks_of(const Sums& sums, std::size_t most) {
  std::vector<std::pair<std::int64_t, Place>> peaks;
  for (const auto& [at, sum] : sums)
    if (is_peak(sums, at, sum.n)) peaks.emplace_back(-sum.n, at);
  std::ranges::sort(peaks);
  if (peaks.size() > most) peaks.resize(most);
  std::vector<Place> places;
  for (const auto& [n, at] : peaks) places.push_back(at);
  return places;
}

// Empty where every token is there once: none stands for the others.
std::string label_of(const std::map<std::string, std::int64_t>& texts) {
  const auto most = std::ranges::max_element(texts, {}, [](const auto& text) { return text.second; });
  return most->second > 1 ? fmt::format("{} {}", token_label(most->first), most->second) : std::string();
}

}  // namespace

bool is_of_keys(const PointSeries& series) {
  return !series.token.empty() && series.id != "queries" && series.id != kTopKeysSeries;
}

Panel without_keys(const Panel& panel) {
  Panel others = panel;
  std::erase_if(others.points, is_of_keys);
  return others;
}

Density density_of(const Panel& panel, const std::vector<std::string>& hidden, const Extent& part,
                   double x_unit, double y_unit, double radius, std::size_t n_peaks) {
  const Grid grid(radius);
  const auto place_of = [&](const PointSeries& series, std::size_t i) {
    return grid.place_of(series.x[i] * x_unit, series.y[i] * y_unit);
  };
  Sums sums;
  std::int64_t fullest = 1;
  for_each_key(panel, hidden, part, [&](const PointSeries& series, std::size_t i) {
    Sum& sum = sums[place_of(series, i)];
    const Colour colour = colour_of_key(panel, series, i);
    auto& total = series.faded ? sum.faded : sum.clear;
    total[0] += colour.r, total[1] += colour.g, total[2] += colour.b;
    sum.n_clear += series.faded ? 0 : 1;
    fullest = std::max(fullest, ++sum.n);
  });
  Density density;
  for (const auto& [at, sum] : sums) {
    const auto [x, y] = grid.middle(at);
    const double full = std::log1p(static_cast<double>(sum.n)) / std::log1p(static_cast<double>(fullest));
    const float opacity = kLeastOpacity + (1 - kLeastOpacity) * static_cast<float>(full);
    density.cells.push_back(
        {x / x_unit, y / y_unit, sum.n, mean_colour(sum), sum.n_clear > 0 ? opacity : kFaded * opacity});
  }
  if (!panel.token_text || n_peaks == 0) return density;
  const std::vector<Place> peaks = peaks_of(sums, n_peaks);
  std::unordered_map<Place, std::map<std::string, std::int64_t>, PlaceHash> texts;
  for (const Place& at : peaks) texts[at];
  for_each_key(panel, hidden, part, [&](const PointSeries& series, std::size_t i) {
    const auto found = texts.find(place_of(series, i));
    if (found != texts.end()) ++found->second[panel.token_text(series.token[i])];
  });
  for (const Place& at : peaks) {
    const auto [x, y] = grid.middle(at);
    if (std::string label = label_of(texts[at]); !label.empty())
      density.peaks.push_back({x / x_unit, y / y_unit, sums[at].n, std::move(label)});
  }
  return density;
}

std::vector<double> hexagon(double radius) {
  std::vector<double> corners;
  for (int corner = 0; corner < 6; ++corner) {
    const double angle = (corner + 0.5) * std::numbers::pi / 3;
    corners.push_back(radius * std::cos(angle));
    corners.push_back(radius * std::sin(angle));
  }
  return corners;
}

}  // namespace keyscope::figures
