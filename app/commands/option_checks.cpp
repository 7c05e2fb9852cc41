#include "app/commands/option_checks.hpp"

#include <charconv>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace keyscope::commands {
namespace {

// What the parser itself says of a number out of its range ends in 309 digits.
CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least) return std::string();
    return fmt::format("expected a whole number of {} or more, found '{}'", least, text);
  };
  return {check, fmt::format("{} or more", least)};
}

}  // namespace

CLI::Validator one_or_more() { return at_least(1); }

CLI::Validator zero_or_more() { return at_least(0); }

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string("expected something, found an empty text") : std::string();
  };
  return {check, ""};
}

}  // namespace keyscope::commands
