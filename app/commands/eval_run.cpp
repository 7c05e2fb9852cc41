#include "app/commands/eval_run.hpp"

#include <cstdint>
#include <memory>

#include <fmt/format.h>

#include "app/commands/eval_output.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/progress.hpp"

namespace keyscope::commands {
namespace {

std::unique_ptr<evaluation::ResultFolder> open_folder(const EvalOptions& options,
                                                      const evaluation::Settings& settings) {
  if (options.out.empty()) return nullptr;
  auto folder = std::make_unique<evaluation::ResultFolder>(options.out, evaluation::settings_json(settings),
                                                           options.force);
  folder->begin();
  return folder;
}

// With progress on stderr.
evaluation::Evaluation evaluate(const EvalOptions& options, const capture::Model& model,
                                const evaluation::Settings& settings, const EvalExamples& asked,
                                evaluation::ResultFolder* folder) {
  capture::CaptureControl control;
  OnInterrupt on_interrupt([&] { control.cancel(); });
  Progress progress("tokens", options.quiet);
  const auto show = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  return evaluation::evaluate(model, settings, asked.examples, asked.scorer, folder, {control, show});
}

void print(const EvalOutcome& outcome, const EvalReport& report) {
  for (const std::string& note : outcome.asked.notes) fmt::print("{}\n", note);
  const auto& bad_rows = outcome.asked.bad_rows;
  for (const std::string& row : bad_rows) fmt::print("Skipped: {}\n", row);
  if (!bad_rows.empty()) fmt::print("Rows skipped: {}.\n", bad_rows.size());
  fmt::print("{}{}", report.table, cost_line(outcome.evaluation));
}

}  // namespace

void run_eval(const EvalOptions& options, const EvalTask& task) {
  evaluation::Settings settings = options.settings(task.name, task.settings);
  check_outputs(options, settings);
  const auto model = options.load_model();
  settings.model = results::identity_of(*model);
  const EvalExamples asked = task.examples(*model);
  evaluation::check_examples(asked.examples, *model);
  settings.task_settings["examples_sha256"] = evaluation::examples_sha256(asked.examples);
  const auto folder = open_folder(options, settings);
  const auto evaluation = evaluate(options, *model, settings, asked, folder.get());
  const EvalOutcome outcome{settings, asked, evaluation};
  const EvalReport report = task.report(outcome);
  const recording::Origin origin = eval_origin(settings, *model);
  const JsonTarget json = options.json_target();
  if (!json.is_stdout()) print(outcome, report);
  if (folder) write_folder(report.figures, report.json, task.name, *folder, origin);
  write_asked_figures(options, report.figures, origin);
  if (json.given()) write_json(json, report.json);
}

}  // namespace keyscope::commands
