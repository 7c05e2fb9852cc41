#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/commands/eval.hpp"
#include "app/commands/eval_run.hpp"
#include "app/commands/option_checks.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/niah_figures.hpp"

namespace keyscope::commands {
namespace {

struct NiahArguments {
  EvalOptions options;
  evaluation::NiahTask task;
};

EvalExamples examples_of(const NiahArguments& arguments, const capture::Model& model) {
  auto made =
      evaluation::niah_examples(arguments.task, arguments.options.seed, model.config(), *model.tokenizer());
  std::string note = fmt::format("{} prompts, each at most {} tokens short of its length, {:.1f} on average.",
                                 made.examples.size(), made.most_short, made.mean_short);
  return {std::move(made.examples), evaluation::score_lookup, {std::move(note)}, std::move(made.bad_rows)};
}

EvalReport report_of(const evaluation::NiahTask& task, const EvalOutcome& outcome) {
  const evaluation::TaskReport report{
      outcome.settings,
      outcome.evaluation,
      {{"recall", evaluation::Interval::kBootstrap}, {"exact", evaluation::Interval::kWilson}},
      "length",
      {task.lengths.begin(), task.lengths.end()},
      outcome.asked.examples,
      outcome.asked.bad_rows};
  return {evaluation::report_table(report), evaluation::report_json(report, evaluation::niah_cells(task)),
          evaluation::niah_figures(report, task)};
}

void run_niah(const NiahArguments& arguments) {
  const evaluation::NiahTask& task = arguments.task;
  task.check();
  run_eval(arguments.options, {"niah", evaluation::niah_settings(task),
                               [&](const capture::Model& model) { return examples_of(arguments, model); },
                               [&](const EvalOutcome& outcome) { return report_of(task, outcome); }});
}

void add_task_options(CLI::App& command, evaluation::NiahTask& task) {
  command.add_option("--length", task.lengths, "Tokens of the whole prompt; a list")
      ->delimiter(',')
      ->check(one_or_more())
      ->required();
  task.depths = {0, 25, 50, 75, 100};
  command.add_option("--depth", task.depths, "Where the needle goes, in percent of the haystack; a list")
      ->delimiter(',')
      ->check(not_empty())
      ->capture_default_str();
  command.add_option("--samples", task.n_samples, "Haystacks, each with a needle of its own")
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--distractors", task.n_distractors, "Needles of other keys that are not asked for")
      ->check(zero_or_more())
      ->capture_default_str();
  command.add_option("--values", task.n_digits, "Digits of a value")
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--needle", task.needle, "The needle, with {key} and {value}")->capture_default_str();
  command.add_option("--question", task.question, "The prompt's end, with {key}; the value is to follow");
  command.add_option("--keys", task.keys_path, "A file of keys, one a line (default: cities)");
  command.add_option("--haystack", task.haystack_path,
                     "A text file, or a folder of them (default: generated sentences)");
  command.add_option("--max-new-tokens", task.max_new_tokens, "(default: those of the answer and 8 more)")
      ->check(one_or_more());
  command.add_flag("--skip-bad", task.skip_bad, "Go on without bad rows of --keys, and say how many");
}

}  // namespace

void add_eval_niah(CLI::App& eval) {
  auto arguments = std::make_shared<NiahArguments>();
  CLI::App* command = eval.add_subcommand(
      "niah", "A needle in a haystack: recall by length, depth, policy, budget and block");
  arguments->options.add_to(*command);
  add_task_options(*command, arguments->task);
  command->footer(
      "Example:\n"
      "  keyscope eval niah --model assets/demo_model --policy keydiff --policy sink --budget 25% \\\n"
      "    --length 256,512 --depth 0,50,100 --samples 2 --out needles");
  command->callback([arguments] { run_niah(*arguments); });
}

}  // namespace keyscope::commands
