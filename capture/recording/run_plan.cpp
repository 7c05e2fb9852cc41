#include "capture/recording/run_plan.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace keyscope::recording {

std::string parameters_json(const std::map<std::string, std::string>& options) {
  using Json = nlohmann::ordered_json;
  Json json = Json::object();
  for (const auto& [key, value] : options) {
    const Json number = Json::parse(value, nullptr, false);
    json[key] = number.is_number() ? number : Json(value);
  }
  return json.dump();
}

std::string next_run_name(const std::string& policy, std::span<const RunPlan> runs) {
  std::string name = policy;
  const auto taken = [&](const RunPlan& run) { return run.name == name; };
  for (int use = 2; std::ranges::any_of(runs, taken); ++use) name = fmt::format("{}-{}", policy, use);
  return name;
}

}  // namespace keyscope::recording
