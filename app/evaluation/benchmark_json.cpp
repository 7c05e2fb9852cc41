#include "app/evaluation/benchmark_json.hpp"

#include "app/evaluation/paired_scores.hpp"

namespace keyscope::evaluation {

nlohmann::ordered_json benchmark_json(const Settings& settings, const Evaluation& evaluation,
                                      const nlohmann::ordered_json& numbers,
                                      const std::vector<std::string>& bad_rows) {
  const capture::CompletionCost& cost = evaluation.cost;
  nlohmann::ordered_json json{{"format", 1}, {"task", settings.task}, {"settings", settings_json(settings)}};
  json["interval"] = bootstrap_words();
  json.update(numbers);
  add_bad_rows(json, bad_rows);
  json["cost"] = {{"earlier_results", evaluation.n_earlier},
                  {"tokens_asked", cost.tokens_asked},
                  {"tokens_run", cost.tokens_run},
                  {"seconds", cost.seconds}};
  return json;
}

void add_bad_rows(nlohmann::ordered_json& json, const std::vector<std::string>& bad_rows) {
  json["bad_rows"] = bad_rows.size();
  json["skipped_rows"] = bad_rows;
}

}  // namespace keyscope::evaluation
