#include "app/commands/view_choices.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/registry.hpp"
#include "app/session/figure_choice.hpp"

namespace keyscope::commands {

WindowSize parse_window_size(const std::string& text) {
  const std::size_t cross = text.find('x');
  const auto parse = [&](std::string_view part, int& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() && value >= 320 && value <= 16384;
  };
  const std::string_view all = text;
  WindowSize size;
  if (cross == std::string::npos || !parse(all.substr(0, cross), size.width) ||
      !parse(all.substr(cross + 1), size.height))
    throw UsageError(fmt::format("--size: '{}' is no size; expected WIDTHxHEIGHT such as 1280x800", text));
  return size;
}

std::string view_name(const std::string& name) {
  return name == session::kTextView ? name : std::string(figures::figure_name(name));
}

}  // namespace keyscope::commands
