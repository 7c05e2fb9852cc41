#include "app/figures/scale_ticks.hpp"

#include "app/figures/scales.hpp"

namespace keyscope::figures {

std::string name_with_units(const std::string& name, const std::string& units) {
  return units.empty() ? name : name + " [" + units + "]";
}

std::vector<Tick> ticks_of(const Axis& axis, double low, double high, int n_wanted, bool cells) {
  if (axis.categories.empty()) return linear_ticks(low, high, n_wanted, cells || axis.counted);
  std::vector<Tick> ticks;
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

}  // namespace keyscope::figures
