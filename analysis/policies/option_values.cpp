#include "analysis/policies/option_values.hpp"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

const std::string& value_of(const PolicySpec& spec, std::string_view key) {
  return spec.options.at(std::string(key));
}

[[noreturn]] void refuse(const PolicySpec& spec, std::string_view key, std::string_view accepted) {
  throw UsageError(fmt::format("policy {}: {}={} is not accepted; {} takes {}", spec.name, key,
                               value_of(spec, key), key, accepted));
}

template <typename T>
bool read_all(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end;
}

}  // namespace

std::size_t read_choice(const PolicySpec& spec, std::string_view key,
                        std::initializer_list<std::string_view> accepted) {
  const std::string& value = value_of(spec, key);
  std::size_t index = 0;
  for (const auto& choice : accepted) {
    if (value == choice) return index;
    ++index;
  }
  refuse(spec, key, fmt::format("{}", fmt::join(accepted, ", ")));
}

std::uint64_t read_whole_number(const PolicySpec& spec, std::string_view key, std::uint64_t least,
                                std::uint64_t most) {
  std::uint64_t value = 0;
  if (!read_all(value_of(spec, key), value) || value < least || value > most)
    refuse(spec, key, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

double read_fraction(const PolicySpec& spec, std::string_view key) {
  double value = 0;
  if (!read_all(value_of(spec, key), value) || !(value >= 0 && value <= 1))
    refuse(spec, key, "a fraction from 0 to 1");
  return value;
}

double read_positive(const PolicySpec& spec, std::string_view key) {
  double value = 0;
  if (!read_all(value_of(spec, key), value) || !(value > 0) || !std::isfinite(value))
    refuse(spec, key, "a number above 0");
  return value;
}

std::int64_t round_half_up(double fraction, std::int64_t whole) {
  return static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(whole) + 0.5 + 1e-9));
}

}  // namespace keyscope::analysis
