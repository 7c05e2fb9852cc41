#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/evaluation.hpp"

namespace keyscope::evaluation {

// What a benchmark's report says around its own numbers: {"format", "task", "settings", "interval", those of
// `numbers`, "bad_rows", "skipped_rows", "cost"}.
//   numbers: an object
//   bad_rows: that were skipped, and why
nlohmann::ordered_json benchmark_json(const Settings& settings, const Evaluation& evaluation,
                                      const nlohmann::ordered_json& numbers,
                                      const std::vector<std::string>& bad_rows);

// {"bad_rows", "skipped_rows"}: how many rows were skipped, and of each where it stands and what was wrong.
void add_bad_rows(nlohmann::ordered_json& json, const std::vector<std::string>& bad_rows);

}  // namespace keyscope::evaluation
