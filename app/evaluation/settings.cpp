#include "app/evaluation/settings.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "app/evaluation/given_once.hpp"
#include "app/results/policy_json.hpp"

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;

// Of what is scored and how it is stored; results of another format are not mixed with these.
constexpr int kFormat = 2;

}  // namespace

bool GridPoint::operator==(const GridPoint& other) const {
  return policy == other.policy && budget_text == other.budget_text && block == other.block;
}

std::vector<AskedPolicy> parse_policies(const std::vector<std::string>& texts) {
  std::vector<AskedPolicy> policies;
  for (const std::string& text : texts)
    if (analysis::PolicySpec spec = analysis::parse_policy(text); spec.name != "none")
      policies.push_back({text, std::move(spec)});
  return policies;
}

std::vector<AskedBudget> parse_budgets(const std::vector<std::string>& texts) {
  std::vector<AskedBudget> budgets;
  for (const std::string& text : texts) budgets.push_back({text, results::parse_budget(text)});
  return budgets;
}

void check_grid(const Settings& settings) {
  if (!settings.policies.empty() && settings.budgets.empty())
    throw UsageError("--budget: expected at least one, since policies that evict were asked for");
  if (settings.blocks.empty()) throw UsageError("--block: expected at least one");
  for (const std::int64_t block : settings.blocks)
    if (block < 1) throw UsageError(fmt::format("--block: found {}; expected 1 or more", block));
  check_given_once(settings.policies, "--policy", [](const AskedPolicy& policy) { return policy.text; });
  check_given_once(settings.budgets, "--budget", [](const AskedBudget& budget) { return budget.text; });
  check_given_once(settings.blocks, "--block", [](std::int64_t block) { return block; });
}

Settings asked_grid(const std::vector<std::string>& policies, const std::vector<std::string>& budgets,
                    const std::vector<std::int64_t>& blocks, std::uint64_t seed) {
  Settings settings;
  settings.policies = parse_policies(policies);
  settings.budgets = parse_budgets(budgets);
  settings.blocks = blocks;
  settings.seed = seed;
  check_grid(settings);
  return settings;
}

std::vector<GridPoint> grid_of(const Settings& settings) {
  std::vector<GridPoint> grid;
  for (const std::int64_t block : settings.blocks) {
    grid.push_back({"none", analysis::parse_policy("none"), "", {}, block});
    for (const AskedPolicy& policy : settings.policies)
      for (const AskedBudget& budget : settings.budgets)
        grid.push_back({policy.text, policy.spec, budget.text, budget.budget, block});
  }
  return grid;
}

Json settings_json(const Settings& settings) {
  Json json{{"format", kFormat}};
  json["task"] = settings.task;
  results::add_identity(json, settings.model);
  json["policies"] = Json::array();
  for (const AskedPolicy& policy : settings.policies) {
    Json& asked = json["policies"].emplace_back(Json{{"policy", policy.text}});
    asked.update(results::policy_json(policy.spec, settings.seed));
  }
  json["budgets"] = Json::array();
  for (const AskedBudget& budget : settings.budgets) json["budgets"].push_back(budget.text);
  json["blocks"] = settings.blocks;
  json["seed"] = settings.seed;
  for (const auto& [name, value] : settings.task_settings.items()) json[name] = value;
  return json;
}

}  // namespace keyscope::evaluation
