#pragma once

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"

namespace keyscope::commands {

// What one of the words that an option takes stands for.
//   throws UsageError naming the option and the words
template <typename Value>
Value choose(const std::string& option, const std::string& word, const std::map<std::string, Value>& words) {
  const auto found = words.find(word);
  if (found != words.end()) return found->second;
  std::vector<std::string> known;
  known.reserve(words.size());
  for (const auto& [name, value] : words) known.push_back(name);
  throw UsageError(fmt::format("{}: '{}' is not one of {}", option, word, fmt::join(known, ", ")));
}

}  // namespace keyscope::commands
