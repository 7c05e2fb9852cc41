#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "analysis/policies/policy.hpp"
#include "app/results/budget.hpp"
#include "app/results/run_identity.hpp"

namespace keyscope::evaluation {

// A policy as it was asked for: its text names its row in every table.
struct AskedPolicy {
  std::string text;  // "keydiff:recent=0.1"
  analysis::PolicySpec spec;
};

// A budget as it was asked for.
struct AskedBudget {
  std::string text;  // "64", "25%"
  results::Budget budget;
};

// All that the numbers of an evaluation depend on, but for the examples.
struct Settings {
  std::string task;  // "niah"
  results::ModelIdentity model;
  std::vector<AskedPolicy> policies;  // `none` is not among them: it always runs
  std::vector<AskedBudget> budgets;   // at least one, unless there is no policy
  std::vector<std::int64_t> blocks;   // at least one
  std::uint64_t seed = 0;  // of policies that draw, of what is drawn for examples, of the bootstrap
  nlohmann::ordered_json task_settings = nlohmann::ordered_json::object();  // what the task adds
};

// One column of the grid: how every example is run.
struct GridPoint {
  std::string policy;  // as asked for
  analysis::PolicySpec spec;
  std::string budget_text;  // as asked for; empty for `none`
  results::Budget budget;   // without meaning for `none`
  std::int64_t block = 0;

  bool evicts() const { return spec.name != "none"; }
  // N for a prompt of so many tokens; 0 for `none`.
  std::int64_t rows_for(std::int64_t n_prompt) const { return evicts() ? budget.rows_for(n_prompt) : 0; }
  bool operator==(const GridPoint& other) const;  // by policy, budget_text and block
};

// Policies and budgets in the order of the command line.
//   throws UsageError on a policy, budget or block that cannot be, or that is given twice, and on policies
//   without a budget
std::vector<AskedPolicy> parse_policies(const std::vector<std::string>& texts);
std::vector<AskedBudget> parse_budgets(const std::vector<std::string>& texts);
void check_grid(const Settings& settings);

// The grid of a command line, checked; without a task and a model.
//   throws UsageError as the three above
Settings asked_grid(const std::vector<std::string>& policies, const std::vector<std::string>& budgets,
                    const std::vector<std::int64_t>& blocks, std::uint64_t seed);

// Policy × budget × block, and `none` once per block before the others, as what they are compared with.
std::vector<GridPoint> grid_of(const Settings& settings);

// Every setting with its value; options of policies in full.
nlohmann::ordered_json settings_json(const Settings& settings);

}  // namespace keyscope::evaluation
