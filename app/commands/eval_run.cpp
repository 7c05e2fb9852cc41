#include "app/commands/eval_run.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "app/commands/eval_output.hpp"
#include "app/commands/hash_progress_line.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/progress.hpp"
#include "app/figures/axis_ticks.hpp"

namespace keyscope::commands {
namespace {

std::unique_ptr<evaluation::ResultFolder> open_folder(const EvalOptions& options,
                                                      const evaluation::Settings& settings) {
  if (options.out.empty()) return nullptr;
  return std::make_unique<evaluation::ResultFolder>(options.out, evaluation::settings_json(settings),
                                                    options.force);
}

void print_plan(const evaluation::Settings& settings, const EvalExamples& asked,
                const evaluation::ResultFolder* folder) {
  const auto plan = evaluation::plan_evaluation(settings, asked.examples, folder);
  const auto count = [](std::int64_t n) { return figures::format_count(n); };
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const evaluation::Example& example : asked.examples) {
    least = std::min(least, std::ssize(example.prompt_ids));
    most = std::max(most, std::ssize(example.prompt_ids));
  }
  fmt::print(
      "{} examples of {} to {} tokens in {} settings: {} results, {} of them from before; at most {} tokens "
      "to run, less what prompts share.\n",
      count(std::ssize(asked.examples)), count(least), count(most),
      count(std::ssize(evaluation::grid_of(settings))), count(plan.n_results), count(plan.n_earlier),
      count(plan.tokens_asked));
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

void print_notes(const EvalExamples& asked) {
  for (const std::string& note : asked.notes) fmt::print("{}\n", note);
  for (const std::string& row : asked.bad_rows) fmt::print("Skipped: {}\n", row);
  if (!asked.bad_rows.empty()) fmt::print("Rows skipped: {}.\n", asked.bad_rows.size());
}

}  // namespace

void run_eval(const EvalOptions& options, const EvalTask& task) {
  evaluation::Settings settings = options.settings(task.name, task.settings);
  check_outputs(options, settings);
  const auto model = options.load_model();
  settings.model = results::identity_of(*model, hash_progress_line(options.quiet));
  const EvalExamples asked = task.examples(*model);
  evaluation::check_examples(asked.examples, *model);
  settings.task_settings["examples_sha256"] = evaluation::examples_sha256(asked.examples);
  const auto folder = open_folder(options, settings);
  if (options.dry_run) {
    print_notes(asked);
    return print_plan(settings, asked, folder.get());
  }
  if (folder) folder->begin();
  const auto evaluation = evaluate(options, *model, settings, asked, folder.get());
  const EvalOutcome outcome{settings, asked, evaluation};
  const EvalReport report = task.report(outcome);
  const recording::Origin origin = eval_origin(settings, *model);
  const JsonTarget json = options.json_target();
  if (!json.is_stdout()) {
    print_notes(asked);
    fmt::print("{}{}", report.table, cost_line(evaluation));
  }
  if (folder) write_folder(report.figures, report.json, task.name, *folder, origin);
  write_asked_figures(options, report.figures, origin);
  if (json.given()) write_json(json, report.json);
}

}  // namespace keyscope::commands
