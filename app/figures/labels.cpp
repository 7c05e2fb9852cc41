#include "app/figures/labels.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::figures {
namespace {

using nlohmann::json;
using recording::RecordingInfo;
using recording::RunInfo;
using recording::RunPlan;

constexpr std::size_t kLongestOnAxis = 24;  // letters of a label

const RunPlan& plan_of(const RecordingInfo& info, int run) {
  return info.runs[static_cast<std::size_t>(run)].plan;
}

json options_of(const RunPlan& plan) {
  const json options = json::parse(plan.parameters, nullptr, false);
  return options.is_object() ? options : json::object();
}

std::string shown(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Options of a plan by name, with budget and block size as if they were two more.
std::vector<std::pair<std::string, std::string>> settings_of(const RunPlan& plan) {
  std::vector<std::pair<std::string, std::string>> settings;
  const json options = options_of(plan);  // outlives the view of its items
  for (const auto& [key, value] : options.items()) settings.emplace_back(key, shown(value));
  settings.emplace_back("N =", format_count(plan.budget));
  settings.emplace_back("B =", format_count(plan.block_size));
  return settings;
}

// The settings of a run that some other run of the same policy has otherwise.
std::string distinction(const RecordingInfo& info, const RunPlan& plan) {
  std::string text;
  for (const auto& setting : settings_of(plan)) {
    const bool differs = std::ranges::any_of(info.runs, [&](const RunInfo& other) {
      if (other.plan.policy != plan.policy) return false;
      const auto others = settings_of(other.plan);
      return std::ranges::find(others, setting) == others.end();
    });
    if (differs) text += fmt::format(", {} {}", setting.first, setting.second);
  }
  return text;
}

}  // namespace

std::string run_label(const RecordingInfo& info, int run) {
  const RunPlan& plan = plan_of(info, run);
  const std::string label = plan.policy + distinction(info, plan);
  const auto same = std::ranges::count_if(info.runs, [&](const RunInfo& other) {
    return other.plan.policy + distinction(info, other.plan) == label;
  });
  return same > 1 ? plan.name : label;
}

RunNames name_runs(const RecordingInfo& info, const std::vector<int>& runs) {
  RunNames named;
  bool too_long = false;
  for (const int run : runs) {
    named.names.push_back(run_label(info, run));
    too_long = too_long || named.names.back().size() > kLongestOnAxis;
  }
  if (!too_long) return named;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPlan& plan = plan_of(info, runs[i]);
    const std::string label = std::exchange(named.names[i], plan.name);
    if (const std::string lead = plan.policy + ", "; label.starts_with(lead))
      named.key += fmt::format(" {}: {}.", plan.name, label.substr(lead.size()));
  }
  return named;
}

std::string describe_budget(const RecordingInfo& info, const std::vector<int>& runs) {
  std::set<std::int64_t> budgets, block_sizes;
  for (const int run : runs) {
    const RunPlan& plan = plan_of(info, run);
    if (plan.policy == "none") continue;
    budgets.insert(plan.budget);
    block_sizes.insert(plan.block_size);
  }
  std::string text;
  if (budgets.size() == 1) text += fmt::format(", N = {}", format_count(*budgets.begin()));
  if (block_sizes.size() == 1) text += fmt::format(", B = {}", format_count(*block_sizes.begin()));
  return text;
}

}  // namespace keyscope::figures
