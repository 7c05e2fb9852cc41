#include "app/commands/eval_run.hpp"

#include <memory>

#include <fmt/format.h>

namespace keyscope::commands {

void run_eval(const EvalOptions& options, const EvalTask& task) {
  check_outputs(options);
  const evaluation::Settings asked = asked_settings(options, task.name, task.settings);
  const auto model = load_eval_model(options);
  evaluation::Settings settings = evaluation::with_model(asked, *model);
  const EvalExamples made = task.examples(*model);
  std::unique_ptr<evaluation::ResultFolder> folder;
  const auto evaluation = run_examples(options, *model, settings, made.examples, task.scorer, folder);
  evaluation::TaskReport report{settings, evaluation, task.scores, task.axis, task.groups, {}};
  for (const evaluation::Example& example : made.examples) report.examples.push_back(&example);
  auto json = evaluation::report_json(report, task.cells);
  json["bad_rows"] = made.n_bad_rows;
  const auto figures = task.figures(report);
  const recording::Origin origin = eval_origin(settings, *model);
  if (!options.json.is_stdout()) {
    for (const std::string& note : made.notes) fmt::print("{}\n", note);
    fmt::print("{}{}", evaluation::report_table(report), cost_line(evaluation));
  }
  if (folder) write_folder(figures, json, task.name, *folder, origin);
  write_asked_figures(options, figures, origin);
  if (options.json.given()) write_json(options.json, json);
}

}  // namespace keyscope::commands
