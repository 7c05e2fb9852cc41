#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/commands/eval.hpp"
#include "app/commands/eval_data.hpp"
#include "app/commands/eval_run.hpp"
#include "app/commands/option_checks.hpp"
#include "app/evaluation/benchmark_json.hpp"
#include "app/evaluation/longbench.hpp"
#include "app/evaluation/longbench_report.hpp"

namespace keyscope::commands {
namespace {

struct LongBenchArguments {
  EvalOptions options;
  EvalDataOptions data;
  std::string task;
  std::optional<std::int64_t> max_tokens;
  bool no_truncate = false;
};

evaluation::LongBenchOptions asked_options(const LongBenchArguments& arguments) {
  evaluation::LongBenchOptions options;
  options.data = arguments.data.files();
  options.task = arguments.task;
  options.max_tokens = arguments.max_tokens;
  options.cut = !arguments.no_truncate;
  options.chat = arguments.data.chat();
  options.rows = arguments.data.rows();
  options.skip_bad = arguments.data.skip_bad();
  return options;
}

void run_longbench(const LongBenchArguments& arguments) {
  const auto options = asked_options(arguments);
  evaluation::LongBenchSet set;
  const auto examples = [&](const capture::Model& model) {
    set = evaluation::read_longbench(options, model);
    EvalExamples asked{set.examples, evaluation::longbench_scorer(set, *model.tokenizer()), {}, set.bad};
    if (set.n_cut > 0)
      asked.notes.push_back(
          fmt::format("{} of {} prompts lost their middle.", set.n_cut, set.examples.size()));
    return asked;
  };
  const auto report = [&](const EvalOutcome& outcome) {
    const auto grid = evaluation::grid_of(outcome.settings);
    const evaluation::ScoreTable table(outcome.evaluation.results, grid);
    const auto scored = evaluation::longbench_report(table, set.rows, outcome.settings.seed);
    auto numbers = evaluation::longbench_json(scored, grid);
    numbers["prompts_cut"] = set.n_cut;
    return EvalReport{
        evaluation::longbench_table(scored, grid),
        evaluation::benchmark_json(outcome.settings, outcome.evaluation, numbers, outcome.asked.bad_rows)};
  };
  run_eval(arguments.options, {"longbench", evaluation::longbench_settings(options), examples, report});
}

}  // namespace

void add_eval_longbench(CLI::App& eval) {
  auto arguments = std::make_shared<LongBenchArguments>();
  CLI::App* command = eval.add_subcommand(
      "longbench", "LongBench's English tasks, from its own JSON lines, scored as it does");
  arguments->data.add_to(*command, "LongBench's rows: files of JSON lines, or folders of *.jsonl");
  command->add_option("--task", arguments->task, "The data set of rows that name none, such as qasper");
  command
      ->add_option(
          "--max-tokens", arguments->max_tokens,
          "Cut the middle out of prompts longer than this (default: the model's context less what is "
          "generated)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 40));
  command->add_flag("--no-truncate", arguments->no_truncate, "Rows with longer prompts are bad rows");
  arguments->options.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope eval longbench --model assets/demo_model --data assets/eval/longbench.jsonl --policy "
      "keydiff \\\n"
      "    --budget 25% --block 32 --json longbench.json");
  command->callback([arguments] { run_longbench(*arguments); });
}

}  // namespace keyscope::commands
