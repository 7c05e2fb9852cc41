#include <memory>

#include <fmt/format.h>

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
  EvalExamples examples{std::move(made.examples), {}, std::ssize(made.bad_rows)};
  for (const std::string& row : made.bad_rows) examples.notes.push_back("Skipped: " + row);
  return examples;
}

void run_phonebook(PhonebookArguments& arguments) {
  arguments.options.json.replace = arguments.options.force;
  const evaluation::PhonebookTask& task = arguments.task;
  EvalTask eval{
      .name = "phonebook",
      .settings = evaluation::phonebook_settings(task),
      .scores = {{"exact", evaluation::Interval::kWilson}, {"recall", evaluation::Interval::kBootstrap}},
      .axis = "entries",
      .groups = {},
      .cells = evaluation::phonebook_cells(task),
      .scorer = evaluation::score_lookup,
      .examples = [&](const capture::Model& model) { return examples_of(arguments, model); },
      .figures =
          [&](const evaluation::TaskReport& report) {
            return std::vector{evaluation::phonebook_figure(report, task)};
          }};
  for (const std::int64_t entries : task.entries) eval.groups.emplace_back(entries);
  run_eval(arguments.options, eval);
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
