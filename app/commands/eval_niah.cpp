#include <memory>

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
  EvalExamples examples{std::move(made.examples), {}, std::ssize(made.bad_rows)};
  examples.notes.push_back(
      fmt::format("{} prompts, each at most {} tokens short of its length, {:.1f} on average.",
                  examples.examples.size(), made.most_short, made.mean_short));
  for (const std::string& row : made.bad_rows) examples.notes.push_back("Skipped: " + row);
  return examples;
}

void run_niah(NiahArguments& arguments) {
  arguments.options.json.replace = arguments.options.force;
  arguments.task.check();
  const evaluation::NiahTask& task = arguments.task;
  EvalTask eval{
      .name = "niah",
      .settings = evaluation::niah_settings(task),
      .scores = {{"recall", evaluation::Interval::kBootstrap}, {"exact", evaluation::Interval::kWilson}},
      .axis = "length",
      .groups = {},
      .cells = evaluation::niah_cells(task),
      .scorer = evaluation::score_lookup,
      .examples = [&](const capture::Model& model) { return examples_of(arguments, model); },
      .figures =
          [&](const evaluation::TaskReport& report) { return evaluation::niah_figures(report, task); }};
  for (const std::int64_t length : task.lengths) eval.groups.emplace_back(length);
  run_eval(arguments.options, eval);
}

void add_task_options(CLI::App& command, evaluation::NiahTask& task) {
  command.add_option("--length", task.lengths, "Tokens of the whole prompt; a list")
      ->delimiter(',')
      ->check(one_or_more())
      ->required();
  task.depths = {0, 25, 50, 75, 100};
  command.add_option("--depth", task.depths, "Where the needle goes, in percent of the haystack; a list")
      ->delimiter(',')
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
