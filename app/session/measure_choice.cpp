#include "app/session/measure_choice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::session {

std::size_t measure_index(std::string_view id) {
  const auto choices = measure_choices();
  const auto found = std::ranges::find(choices, id, &MeasureChoice::id);
  return found == choices.end() ? 0 : static_cast<std::size_t>(found - choices.begin());
}

std::string format_measure(const MeasureChoice& choice, const std::optional<double>& value) {
  return value ? figures::format_signed(*value, choice.decimals) : std::string("–");
}

std::string measure_label(const MeasureChoice& choice) {
  return *choice.unit == '\0' ? std::string(choice.label) : fmt::format("{} ({})", choice.label, choice.unit);
}

}  // namespace keyscope::session
