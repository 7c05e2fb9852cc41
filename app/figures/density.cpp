#include "app/figures/density.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
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

// Hexagons that stand on a corner, in lengths of the screen.
class Grid {
 public:
  explicit Grid(double radius)
      : width_(std::numbers::sqrt3 * radius),
        height_(1.5 * radius),
        per_width_(1 / width_),
        per_height_(1 / height_) {}

  // The nearer middle of the rows below and above.
  Place place_of(double x, double y) const {
    const std::int32_t low = whole(y * per_height_);
    const std::int32_t column_low = column_of(x, low), column_high = column_of(x, low + 1);
    return distance(x, y, low + 1, column_high) < distance(x, y, low, column_low)
               ? Place{low + 1, column_high}
               : Place{low, column_low};
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
  // The next whole number below: std::floor is a call on processors of the first level.
  static std::int32_t whole(double x) {
    const auto towards_zero = static_cast<std::int32_t>(x);
    return towards_zero - (x < towards_zero ? 1 : 0);
  }
  double shift_of(std::int32_t row) const { return (row & 1) * 0.5 * width_; }
  std::int32_t column_of(double x, std::int32_t row) const {
    return whole((x - shift_of(row)) * per_width_ + 0.5);
  }
  double distance(double x, double y, std::int32_t row, std::int32_t column) const {
    const double right = x - shift_of(row) - column * width_, up = y - row * height_;
    return right * right + up * up;
  }

  double width_, height_, per_width_, per_height_;
};

struct Sum {
  std::int64_t n = 0, n_clear = 0;
  std::array<double, 3> clear{}, faded{};  // of colours
};

// All hexagons that touch a part of the plane, row by row.
class Sums {
 public:
  // first, last: the least and the greatest row and column
  Sums(const Place& first, const Place& last)
      : first_(first),
        n_columns_(std::int64_t{last.column} - first.column + 1),
        sums_(static_cast<std::size_t>((std::int64_t{last.row} - first.row + 1) * n_columns_)) {}

  std::size_t index(const Place& place) const {
    return static_cast<std::size_t>((std::int64_t{place.row} - first_.row) * n_columns_ + place.column -
                                    first_.column);
  }
  std::size_t size() const { return sums_.size(); }
  Sum& operator[](std::size_t index) { return sums_[index]; }
  // Empty beyond them.
  std::int64_t n_in(const Place& place) const {
    const bool inside = place.row >= first_.row && place.column >= first_.column &&
                        place.column < first_.column + n_columns_ && index(place) < sums_.size();
    return inside ? sums_[index(place)].n : 0;
  }
  template <typename Function>
  void for_each(const Function& function) const {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (sums_[i].n > 0)
        function(Place{first_.row + static_cast<std::int32_t>(static_cast<std::int64_t>(i) / n_columns_),
                       first_.column + static_cast<std::int32_t>(static_cast<std::int64_t>(i) % n_columns_)},
                 sums_[i]);
  }

 private:
  Place first_;
  std::int64_t n_columns_;
  std::vector<Sum> sums_;
};

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
    const std::int64_t other = sums.n_in(beside);
    return other > n || (other == n && beside < at);
  });
}

// The fullest first.
std::vector<Place> peaks_of(const Sums& sums, std::size_t most) {
  std::vector<std::pair<std::int64_t, Place>> peaks;
  sums.for_each([&](const Place& at, const Sum& sum) {
    if (is_peak(sums, at, sum.n)) peaks.emplace_back(-sum.n, at);
  });
  std::ranges::sort(peaks);
  if (peaks.size() > most) peaks.resize(most);
  std::vector<Place> places;
  places.reserve(peaks.size());
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
  Extent shown = Extent::none();  // of the keys: no larger than what is to be counted
  for_each_key(panel, hidden, part,
               [&](const PointSeries& series, std::size_t i) { shown.include(series.x[i], series.y[i]); });
  Density density;
  if (shown.empty()) return density;
  const auto place_of = [&](double x, double y) { return grid.place_of(x * x_unit, y * y_unit); };
  // A row further to every side: rows lie half a hexagon apart.
  const Place low = place_of(shown.x_low, shown.y_low), high = place_of(shown.x_high, shown.y_high);
  Sums sums({low.row - 1, low.column - 1}, {high.row + 1, high.column + 1});
  std::int64_t fullest = 1;
  std::vector<std::uint32_t> indices;  // of every key's hexagon
  for_each_key(panel, hidden, part, [&](const PointSeries& series, std::size_t i) {
    const std::size_t index = sums.index(place_of(series.x[i], series.y[i]));
    indices.push_back(static_cast<std::uint32_t>(index));
    Sum& sum = sums[index];
    const Colour colour = colour_of_key(panel, series, i);
    auto& total = series.faded ? sum.faded : sum.clear;
    total[0] += colour.r, total[1] += colour.g, total[2] += colour.b;
    sum.n_clear += series.faded ? 0 : 1;
    fullest = std::max(fullest, ++sum.n);
  });
  sums.for_each([&](const Place& at, const Sum& sum) {
    const auto [x, y] = grid.middle(at);
    const double full = std::log1p(static_cast<double>(sum.n)) / std::log1p(static_cast<double>(fullest));
    const float opacity = kLeastOpacity + (1 - kLeastOpacity) * static_cast<float>(full);
    density.cells.push_back(
        {x / x_unit, y / y_unit, sum.n, mean_colour(sum), sum.n_clear > 0 ? opacity : kFaded * opacity});
  });
  if (!panel.token_text || n_peaks == 0) return density;
  const std::vector<Place> peaks = peaks_of(sums, n_peaks);
  std::vector<std::uint32_t> peak_of(sums.size());  // its place among these, plus one
  for (std::size_t peak = 0; peak < peaks.size(); ++peak)
    peak_of[sums.index(peaks[peak])] = static_cast<std::uint32_t>(peak) + 1;
  std::vector<std::map<std::string, std::int64_t>> texts(peaks.size());
  const std::uint32_t* next = indices.data();
  for_each_key(panel, hidden, part, [&](const PointSeries& series, std::size_t i) {
    if (const std::uint32_t peak = peak_of[*next++]; peak > 0)
      ++texts[peak - 1][panel.token_text(series.token[i])];
  });
  for (std::size_t peak = 0; peak < peaks.size(); ++peak) {
    const Place& at = peaks[peak];
    const auto [x, y] = grid.middle(at);
    if (std::string label = label_of(texts[peak]); !label.empty())
      density.peaks.push_back({x / x_unit, y / y_unit, sums.n_in(at), std::move(label)});
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
