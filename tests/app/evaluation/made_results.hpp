#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/example.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

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

// A section of a file in goldens/, which the script beside it wrote.
inline nlohmann::json read_goldens(const std::string& file_name, const char* section) {
  return parse_json(read_file(KEYSCOPE_EVALUATION_GOLDENS "/" + file_name)).at(section);
}

inline constexpr const char* kDemoModel = KEYSCOPE_SOURCE_DIR "/assets/demo_model";

inline std::shared_ptr<const capture::Model> demo_model() {
  static const auto model = capture::Model::load(kDemoModel, {.dtype = capture::DType::kFloat32});
  return model;
}

// An evaluation in memory, with nobody watching.
inline Evaluation evaluate_demo(const Settings& settings, std::span<const Example> examples,
                                const Scorer& scorer) {
  capture::CaptureControl control;
  return evaluate(*demo_model(), settings, examples, scorer, nullptr,
                  {control, [](std::int64_t, std::int64_t, const std::string&) {}});
}

}  // namespace keyscope::evaluation
