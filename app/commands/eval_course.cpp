#include "app/commands/eval_course.hpp"

#include <memory>

#include <fmt/format.h>

namespace keyscope::commands {
namespace {

using Json = nlohmann::ordered_json;

Json report_json(const evaluation::Settings& settings, const evaluation::Evaluation& evaluation,
                 const CourseExamples& made, const Json& report) {
  const capture::CompletionCost& cost = evaluation.cost;
  Json json{{"format", 1}, {"task", settings.task}, {"settings", evaluation::settings_json(settings)}};
  json["interval"] = evaluation::bootstrap_words();
  json.update(report);
  json["bad_rows"] = made.bad_rows;
  json["cost"] = {{"earlier_results", evaluation.n_earlier},
                  {"tokens_asked", cost.tokens_asked},
                  {"tokens_run", cost.tokens_run},
                  {"seconds", cost.seconds}};
  return json;
}

}  // namespace

void run_course(const EvalOptions& options, const Course& course) {
  check_outputs(options);
  const evaluation::Settings asked = asked_settings(options, course.name, course.settings);
  const auto model = load_eval_model(options);
  evaluation::Settings settings = evaluation::with_model(asked, *model);
  const CourseExamples made = course.examples(*model);
  std::unique_ptr<evaluation::ResultFolder> folder;
  const auto evaluation = run_examples(options, *model, settings, made.examples, made.scorer, folder);
  const auto grid = evaluation::grid_of(settings);
  const CourseReport report = course.report(evaluation::ScoreTable(evaluation.results, grid), settings);
  const Json json = report_json(settings, evaluation, made, report.json);
  const recording::Origin origin = eval_origin(settings, *model);
  if (!options.json.is_stdout()) {
    for (const std::string& note : made.notes) fmt::print("{}\n", note);
    for (const std::string& row : made.bad_rows) fmt::print("Skipped: {}\n", row);
    fmt::print("{}{}", report.table, cost_line(evaluation));
  }
  if (folder) write_folder(report.figures, json, course.name, *folder, origin);
  write_asked_figures(options, report.figures, origin);
  if (options.json.given()) write_json({options.json.path, options.force}, json);
}

}  // namespace keyscope::commands
