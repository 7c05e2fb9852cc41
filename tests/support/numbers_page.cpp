#include "tests/support/numbers_page.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/files.hpp"

namespace keyscope {

std::map<std::string, std::string> numbers_page(const std::string& heading) {
  std::istringstream page(read_file(std::string(KEYSCOPE_SOURCE_DIR) + "/docs/numbers.md"));
  std::map<std::string, std::string> table;
  bool below = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) below = line == "## " + heading;
    if (!below || !line.starts_with("| ")) continue;
    const auto middle = line.find(" | "), end = line.rfind(" |");
    if (middle < end) table[line.substr(2, middle - 2)] = line.substr(middle + 3, end - middle - 3);
  }
  return table;
}

std::string who_refuses(const std::vector<std::string>& all, const std::vector<std::string>& refusing,
                        const std::string& takes) {
  std::vector<std::string> others;
  std::ranges::copy_if(all, std::back_inserter(others),
                       [&](const std::string& name) { return !std::ranges::count(refusing, name); });
  if (refusing.empty()) return "all " + takes;
  if (others.empty()) return "all refuse";
  if (others.size() < refusing.size()) return fmt::format("all but {} refuse", fmt::join(others, ", "));
  return fmt::format("{} {}", fmt::join(refusing, ", "), refusing.size() == 1 ? "refuses" : "refuse");
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const InvalidInput& error) {
    return error.what();
  } catch (const FileError& error) {
    return error.what();
  }
}

}  // namespace keyscope
