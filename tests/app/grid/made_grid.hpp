#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/grid/grid_scores.hpp"

namespace keyscope::grid {

// Points of a method of a made-up grid, by the places of its scorer and its protection.
using MadePoints = std::function<double(std::size_t task, std::size_t setting, std::size_t scorer,
                                        std::size_t protection, std::size_t example)>;

// Scorers and protections crossed; the base is the first of each, the reference the last scorer.
inline GridPlan made_plan(std::vector<std::string> scorers, std::vector<std::string> protections) {
  GridPlan plan;
  plan.reference = scorers.size() - 1;
  plan.unprotected = 0;
  plan.values[Slot::kScorer] = std::move(scorers);
  plan.values[Slot::kProtection] = std::move(protections);
  plan.values[Slot::kGranularity] = {"head"};
  plan.values[Slot::kSplit] = {"uniform"};
  plan.crossed[Slot::kScorer] = plan.crossed[Slot::kProtection] = true;
  for (std::size_t s = 0; s < plan.values[Slot::kScorer].size(); ++s)
    for (std::size_t p = 0; p < plan.values[Slot::kProtection].size(); ++p) {
      Method& method = plan.methods.emplace_back();
      method.at[Slot::kScorer] = s;
      method.at[Slot::kProtection] = p;
      method.policy = plan.values[Slot::kScorer][s];
      if (p > 0) method.policy += ":protect=" + plan.values[Slot::kProtection][p];
    }
  return plan;
}

// Of as many tasks as there are numbers of examples, at budgets of 25 and 50 %.
inline GridScores made_scores(GridPlan plan, const std::vector<std::size_t>& n_examples,
                              const MadePoints& points) {
  GridScores scores{std::move(plan), {{"25%", 128, "25%"}, {"50%", 128, "50%"}}, {}, 0};
  for (std::size_t t = 0; t < n_examples.size(); ++t) {
    TaskScores& task = scores.tasks.emplace_back();
    task.task = "task " + std::to_string(t);
    task.metric = "recall";
    task.n_examples = static_cast<std::int64_t>(n_examples[t]);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < n_examples[t]; ++i) all.push_back(i);
    task.data_sets = {all};
    for (std::size_t k = 0; k < scores.settings.size(); ++k) {
      task.full.emplace_back(n_examples[t], 100);
      auto& methods = task.methods.emplace_back();
      for (const Method& method : scores.plan.methods) {
        MethodScores& found = methods.emplace_back();
        for (const std::size_t i : all)
          found.points.push_back(points(t, k, method.at[Slot::kScorer], method.at[Slot::kProtection], i));
      }
    }
  }
  return scores;
}

}  // namespace keyscope::grid
