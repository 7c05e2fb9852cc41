#include <memory>
#include <utility>

#include "app/commands/eval.hpp"
#include "app/commands/eval_run.hpp"
#include "app/commands/option_checks.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/phonebook.hpp"
#include "app/evaluation/phonebook_figure.hpp"

namespace keyscope::commands {
namespace {

struct PhonebookArguments {
  EvalOptions options;
  evaluation::PhonebookTask task;
};

EvalExamples examples_of(const PhonebookArguments& arguments, const capture::Model& model) {
  auto made = evaluation::phonebook_examples(arguments.task, arguments.options.seed, model.config(),
                                             *model.tokenizer());
  return {std::move(made.examples), evaluation::score_lookup, {}, std::move(made.bad_rows)};
}

EvalReport report_of(const evaluation::PhonebookTask& task, const EvalOutcome& outcome) {
  const evaluation::TaskReport report{
      outcome.settings,
      outcome.evaluation,
      {{"exact", evaluation::Interval::kWilson}, {"recall", evaluation::Interval::kBootstrap}},
      "entries",
      {task.entries.begin(), task.entries.end()},
      outcome.asked.examples,
      outcome.asked.bad_rows};
  return {evaluation::report_table(report),
          evaluation::report_json(report, evaluation::phonebook_cells(task)),
          {evaluation::phonebook_figure(report, task)}};
}

void run_phonebook(const PhonebookArguments& arguments) {
  const evaluation::PhonebookTask& task = arguments.task;
  run_eval(arguments.options, {"phonebook", evaluation::phonebook_settings(task),
                               [&](const capture::Model& model) { return examples_of(arguments, model); },
                               [&](const EvalOutcome& outcome) { return report_of(task, outcome); }});
}

}  // namespace

void add_eval_phonebook(CLI::App& eval) {
  auto arguments = std::make_shared<PhonebookArguments>();
  CLI::App* command =
      eval.add_subcommand("phonebook", "Looking up an entry of a phone book: accuracy by number of entries");
  arguments->options.add_to(*command);
  evaluation::PhonebookTask& task = arguments->task;
  command->add_option("--entries", task.entries, "Entries of a book; a list")
      ->delimiter(',')
      ->check(one_or_more())
      ->required();
  command->add_option("--samples", task.n_samples, "Books of each size")
      ->check(one_or_more())
      ->capture_default_str();
  command->add_option("--digits", task.n_digits, "Digits of a number")
      ->check(one_or_more())
      ->capture_default_str();
  command->add_option("--names", task.names_path, "A file of names, one a line (default: first names)");
  command->add_option("--question", task.question, "The prompt's end, with {key}; the number is to follow");
  command->add_option("--max-new-tokens", task.max_new_tokens, "(default: those of the answer and 8 more)")
      ->check(one_or_more());
  command->add_flag("--skip-bad", task.skip_bad, "Go on without bad rows of --names, and say how many");
  command->footer(
      "Example:\n"
      "  keyscope eval phonebook --model assets/demo_model --policy keydiff --policy tova --budget 128 \\\n"
      "    --entries 8,32 --samples 4 --figure phonebook.png");
  command->callback([arguments] { run_phonebook(*arguments); });
}

}  // namespace keyscope::commands
