#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "app/evaluation/example_result.hpp"
#include "app/evaluation/settings.hpp"

namespace keyscope::evaluation {

// The full cache, and keydiff with budgets of 10 rows and half the prompt, in blocks of 4 and 8.
inline Settings made_settings() {
  Settings settings;
  settings.task = "made";
  settings.policies = parse_policies({"keydiff"});
  settings.budgets = parse_budgets({"10", "50%"});
  settings.blocks = {4, 8};
  return settings;
}

// Results as an evaluation has them, of prompts of 40 tokens.
//   scores: of an example under a grid point
inline std::vector<ExampleResult> made_results(
    std::size_t n_examples, const std::vector<GridPoint>& grid,
    const std::function<Scores(std::size_t example, const GridPoint& point)>& scores) {
  std::vector<ExampleResult> results;
  for (std::size_t i = 0; i < n_examples; ++i)
    for (const GridPoint& point : grid)
      results.push_back({.id = "example " + std::to_string(i),
                         .policy = point.policy,
                         .budget_text = point.budget_text,
                         .budget = point.rows_for(40),
                         .block = point.block,
                         .n_prompt = 40,
                         .rows_kept = 0,
                         .text = {},
                         .answers = {},
                         .scores = scores(i, point)});
  return results;
}

}  // namespace keyscope::evaluation
