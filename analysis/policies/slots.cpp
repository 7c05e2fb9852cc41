#include "analysis/policies/slots.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

constexpr const char* kProtectValues = "none, or sinks:K, recent:R and boundaries:p, each once, joined by +";
constexpr const char* kGranularityValues = "head, layer, page:ROWS, model";
constexpr const char* kSplitValues = "uniform, adakv, pyramid, cake, cake:TAU1/TAU2, file:PATH";
constexpr const char* kCriticalValues = "off, on, shift";

// What is not given is neutral.
const std::string& option(const PolicySpec& spec, const char* key) {
  static const std::string kNothing;
  const auto given = spec.options.find(key);
  if (given != spec.options.end()) return given->second;
  const auto known = std::ranges::find(slot_options(), key, &OptionDefinition::key);
  return known == slot_options().end() ? kNothing : known->fallback;
}

[[noreturn]] void refuse(const PolicySpec& spec, const char* key, const char* accepted) {
  throw UsageError(fmt::format("policy {}: {}={} is not accepted; {} takes {}", spec.name, key,
                               option(spec, key), key, accepted));
}

// `name:value`, or with `=`: what stands before and after; nothing after where there is neither.
struct NamedValue {
  std::string_view name, value;
};

NamedValue named_value(std::string_view text) {
  const auto end = text.find_first_of(":=");
  if (end == std::string_view::npos) return {text, {}};
  return {text.substr(0, end), text.substr(end + 1)};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && stop == text.data() + text.size();
  return read && value >= 0 && value <= std::numeric_limits<std::int32_t>::max() ? std::optional(value)
                                                                                 : std::nullopt;
}

std::optional<double> positive_number(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && stop == text.data() + text.size();
  return read && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// Whether it is a part of a protection; adds it.
bool read_part(std::string_view text, Slots::Protection& protect) {
  const auto [name, value] = named_value(text);
  if (name == "sinks") {
    const auto rows = whole_number(value);
    protect.sinks = rows.value_or(0);
    return rows.has_value();
  }
  if (name == "recent") {
    if (value == "0") return true;
    const auto rows = budget_in(value);
    protect.recent = rows.value_or(Budget());
    return rows.has_value();
  }
  if (name == "boundaries") {
    if (value == "0") return true;
    const auto share = budget_in(value);
    if (share) protect.boundaries = share->rows == 1 ? 1 : share->share;
    return protect.boundaries > 0;
  }
  return false;
}

Slots::Protection read_protection(const PolicySpec& spec) {
  Slots::Protection protect;
  std::string_view left = option(spec, "protect");
  if (left == "none") return protect;
  std::set<std::string_view> kinds;
  for (bool more = true; more;) {
    const auto end = left.find('+');
    const std::string_view part = left.substr(0, end);
    const bool again = !kinds.insert(named_value(part).name).second;
    if (again || !read_part(part, protect)) refuse(spec, "protect", kProtectValues);
    more = end != std::string_view::npos;
    left.remove_prefix(more ? end + 1 : left.size());
  }
  return protect;
}

void read_granularity(const PolicySpec& spec, Slots& slots) {
  constexpr std::int64_t kLargestPage = 1 << 16;
  const auto [name, value] = named_value(option(spec, "granularity"));
  const bool page = name == "page";
  const auto rows = page ? whole_number(value) : std::nullopt;
  if (page && rows && *rows >= 1 && *rows <= kLargestPage) {
    slots.granularity = Slots::Granularity::kPage;
    slots.page_rows = *rows;
  } else if (name == "layer" && value.empty()) {
    slots.granularity = Slots::Granularity::kLayer;
  } else if (name == "model" && value.empty()) {
    slots.granularity = Slots::Granularity::kModel;
  } else if (name != "head" || !value.empty()) {
    refuse(spec, "granularity", kGranularityValues);
  }
}

// `TAU1/TAU2`, or nothing where they are not told.
bool read_temperatures(std::string_view text, CakeTemperatures& temperatures) {
  if (text.empty()) return true;
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  const auto spatial = positive_number(text.substr(0, slash)),
             temporal = positive_number(text.substr(slash + 1));
  if (!spatial || !temporal) return false;
  temperatures = {*spatial, *temporal};
  return true;
}

void read_split(const PolicySpec& spec, Slots& slots) {
  const auto [name, value] = named_value(option(spec, "split"));
  if (name == "file" && !value.empty()) {
    slots.split = Slots::Split::kFile;
    slots.split_file = value;
  } else if (name == "adakv" && value.empty()) {
    slots.split = Slots::Split::kAdaKv;
  } else if (name == "pyramid" && value.empty()) {
    slots.split = Slots::Split::kPyramid;
  } else if (name == "cake" && read_temperatures(value, slots.cake)) {
    slots.split = Slots::Split::kCake;
  } else if (name != "uniform" || !value.empty()) {
    refuse(spec, "split", kSplitValues);
  }
}

void read_critical(const PolicySpec& spec, Slots& slots) {
  const std::string& value = option(spec, "critical");
  if (value == "on")
    slots.critical = Slots::Critical::kOn;
  else if (value == "shift")
    slots.critical = Slots::Critical::kShift;
  else if (value != "off")
    refuse(spec, "critical", kCriticalValues);
}

void check_together(const PolicySpec& spec, const Slots& slots) {
  const bool deals_within = slots.split == Slots::Split::kAdaKv;
  const bool one_set =
      slots.granularity == Slots::Granularity::kModel && slots.split != Slots::Split::kUniform;
  if ((deals_within && slots.joint()) || one_set)
    throw UsageError(fmt::format(
        "policy {}: granularity={} is one set of rows, among which split={} has nothing to deal out; "
        "expected {}, or split=uniform",
        spec.name, option(spec, "granularity"), option(spec, "split"),
        deals_within ? "granularity=head" : "granularity=head, layer or page"));
}

}  // namespace

const std::vector<OptionDefinition>& slot_options() {
  static const std::vector<OptionDefinition> kOptions{
      {"protect", "none|sinks:K+recent:R+boundaries:p", "none"},
      {"granularity", "head|layer|page:ROWS|model", "head"},
      {"split", "uniform|adakv|pyramid|cake|cake:TAU1/TAU2|file:PATH", "uniform"},
      {"critical", "off|on|shift", "off"}};
  return kOptions;
}

Slots read_slots(const PolicySpec& spec) {
  Slots slots;
  slots.protect = read_protection(spec);
  read_granularity(spec, slots);
  read_split(spec, slots);
  read_critical(spec, slots);
  check_together(spec, slots);
  return slots;
}

WeighingOption weighing_option(const PolicySpec& spec) {
  if (read_slots(spec).granularity == Slots::Granularity::kModel)
    return {"granularity=model", "granularity=layer"};
  return {"split=" + option(spec, "split"), "split=uniform"};
}

bool Slots::due(std::span<const std::int64_t> n_rows, std::span<const std::int64_t> budgets) const {
  if (deals_among_heads())
    return std::reduce(n_rows.begin(), n_rows.end()) > std::reduce(budgets.begin(), budgets.end());
  for (std::size_t head = 0; head < n_rows.size(); ++head)
    if (n_rows[head] > most_rows(budgets[head])) return true;
  return false;
}

std::int64_t Slots::most_rows(std::int64_t budget) const {
  if (granularity != Granularity::kPage) return budget;
  return std::max<std::int64_t>(1, budget / page_rows) * page_rows;
}

}  // namespace keyscope::analysis
