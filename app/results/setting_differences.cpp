#include "app/results/setting_differences.hpp"

#include <fmt/format.h>

namespace keyscope::results {

std::vector<std::string> setting_differences(const nlohmann::ordered_json& there,
                                             const nlohmann::ordered_json& here) {
  std::vector<std::string> sentences;
  for (const auto& [name, value] : here.items()) {
    const auto found = there.value(name, nlohmann::ordered_json());
    if (found != value)
      sentences.push_back(fmt::format("{} is {} there and {} here", name, found.dump(), value.dump()));
  }
  return sentences;
}

}  // namespace keyscope::results
