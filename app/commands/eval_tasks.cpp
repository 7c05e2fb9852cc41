#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "app/commands/eval.hpp"
#include "app/commands/options.hpp"
#include "app/evaluation/longbench.hpp"
#include "app/evaluation/longbench_report.hpp"
#include "app/evaluation/math500.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/perplexity.hpp"
#include "app/evaluation/phonebook.hpp"
#include "app/evaluation/task_report.hpp"

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

EvalTask longbench_task(const LongBenchArguments& arguments) {
  const auto options = asked_options(arguments);
  const auto set = std::make_shared<evaluation::LongBenchSet>();
  const auto examples = [=](const capture::Model& model) {
    *set = evaluation::read_longbench(options, model);
    EvalExamples asked{set->examples, evaluation::longbench_scorer(*set, *model.tokenizer()), {}, set->bad};
    if (set->n_cut > 0)
      asked.notes.push_back(
          fmt::format("{} of {} prompts lost their middle.", set->n_cut, set->examples.size()));
    return asked;
  };
  const auto report = [=](const EvalOutcome& outcome) {
    const auto grid = evaluation::grid_of(outcome.settings);
    const evaluation::ScoreTable table(outcome.evaluation.results, grid);
    const auto scored = evaluation::longbench_report(table, set->rows, outcome.settings.seed);
    auto numbers = evaluation::longbench_json(scored, grid);
    numbers["prompts_cut"] = set->n_cut;
    return EvalReport{evaluation::longbench_table(scored, grid),
                      evaluation::benchmark_json(outcome.settings, numbers, outcome.asked.bad_rows)};
  };
  return {"longbench", evaluation::longbench_settings(options), examples, report};
}

}  // namespace

void add_eval_longbench(CLI::App& eval, const TakeEval& take) {
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
  command->callback([=] { take(arguments->options, longbench_task(*arguments)); });
}

namespace {

struct MathArguments {
  EvalOptions options;
  EvalDataOptions data;
  evaluation::MathOptions math;
};

evaluation::MathOptions asked_options(const MathArguments& arguments) {
  evaluation::MathOptions options = arguments.math;
  options.data = arguments.data.files();
  options.chat = arguments.data.chat();
  options.rows = arguments.data.rows();
  options.skip_bad = arguments.data.skip_bad();
  options.seed = arguments.options.seed;
  return options;
}

EvalTask math500_task(const MathArguments& arguments) {
  const auto options = asked_options(arguments);
  const auto set = std::make_shared<evaluation::MathSet>();
  const auto examples = [=](const capture::Model& model) {
    *set = evaluation::read_math(options, model);
    return EvalExamples{set->examples, evaluation::math_scorer(*model.tokenizer()), {}, set->bad};
  };
  const auto report = [=](const EvalOutcome& outcome) {
    const auto grid = evaluation::grid_of(outcome.settings);
    const evaluation::ScoreTable table(outcome.evaluation.results, grid);
    const auto cells = evaluation::math_report(table, set->rows, options.samples, outcome.settings.seed);
    return EvalReport{evaluation::math_table(cells, grid),
                      evaluation::benchmark_json(outcome.settings, evaluation::math_json(cells, grid),
                                                 outcome.asked.bad_rows)};
  };
  return {"math500", evaluation::math_settings(options), examples, report};
}

}  // namespace

void add_eval_math500(CLI::App& eval, const TakeEval& take) {
  auto arguments = std::make_shared<MathArguments>();
  CLI::App* command = eval.add_subcommand(
      "math500", "Problems of MATH-500, from its own JSON lines: flexible and exact match");
  arguments->data.add_to(*command, "MATH-500's problems: files of JSON lines, or folders of *.jsonl");
  evaluation::MathOptions& math = arguments->math;
  command->add_option("--prompt", math.prompt, "Text with {problem} in it that asks for the answer")
      ->check(not_empty());
  command->add_option("--generate", math.max_new_tokens, "Tokens an answer may have")
      ->check(one_or_more())
      ->capture_default_str();
  command->add_option("--temperature", math.temperature, "0: the likeliest token; else answers are drawn")
      ->check(not_empty())
      ->capture_default_str();
  command->add_option("--top-p", math.top_p, "Draw among the likeliest tokens that hold this probability")
      ->check(not_empty())
      ->capture_default_str();
  command->add_option("--samples", math.samples, "Answers to each problem, of which the mean counts")
      ->check(one_or_more())
      ->capture_default_str();
  arguments->options.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope eval math500 --model assets/demo_model --data assets/eval/math.jsonl --generate 32 \\\n"
      "    --policy keydiff --budget 16 --block 16 --temperature 0.95 --top-p 0.95 --samples 5");
  command->callback([=] { take(arguments->options, math500_task(*arguments)); });
}

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

EvalTask niah_task(const NiahArguments& arguments) {
  arguments.task.check();
  return {"niah", evaluation::niah_settings(arguments.task),
          [arguments](const capture::Model& model) { return examples_of(arguments, model); },
          [task = arguments.task](const EvalOutcome& outcome) { return report_of(task, outcome); }};
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

void add_eval_niah(CLI::App& eval, const TakeEval& take) {
  auto arguments = std::make_shared<NiahArguments>();
  CLI::App* command = eval.add_subcommand(
      "niah", "A needle in a haystack: recall by length, depth, policy, budget and block");
  arguments->options.add_to(*command);
  add_task_options(*command, arguments->task);
  command->footer(
      "Example:\n"
      "  keyscope eval niah --model assets/demo_model --policy keydiff --policy sink --budget 25% \\\n"
      "    --length 256,512 --depth 0,50,100 --samples 2 --out needles");
  command->callback([=] { take(arguments->options, niah_task(*arguments)); });
}

namespace {

struct PerplexityArguments {
  EvalOptions options;
  std::vector<std::string> texts;
  evaluation::PerplexityOptions perplexity;
};

std::string caption(const evaluation::Settings& settings, const evaluation::PerplexitySet& set) {
  return fmt::format("{}, {} windows, {} tokens scored", settings.model.name, set.examples.size(),
                     set.n_scored);
}

EvalTask perplexity_task(const PerplexityArguments& arguments) {
  evaluation::PerplexityOptions options = arguments.perplexity;
  options.texts = {arguments.texts.begin(), arguments.texts.end()};
  const auto set = std::make_shared<evaluation::PerplexitySet>();
  const auto examples = [=](const capture::Model& model) {
    *set = evaluation::read_texts(options, model);
    return EvalExamples{set->examples, evaluation::perplexity_scorer(*set)};
  };
  const auto report = [=](const EvalOutcome& outcome) {
    const evaluation::Settings& settings = outcome.settings;
    const auto grid = evaluation::grid_of(settings);
    const evaluation::ScoreTable table(outcome.evaluation.results, grid);
    const auto cells = evaluation::perplexity_report(table, *set, settings.seed);
    return EvalReport{evaluation::perplexity_table(cells, grid),
                      evaluation::benchmark_json(settings, evaluation::perplexity_json(cells, grid, *set),
                                                 outcome.asked.bad_rows),
                      {evaluation::perplexity_figure(cells, grid, *set, caption(settings, *set))}};
  };
  return {"perplexity", evaluation::perplexity_settings(options), examples, report};
}

}  // namespace

void add_eval_perplexity(CLI::App& eval, const TakeEval& take) {
  auto arguments = std::make_shared<PerplexityArguments>();
  CLI::App* command = eval.add_subcommand(
      "perplexity", "Perplexity of a text in windows, also by position, read block by block with eviction");
  evaluation::PerplexityOptions& perplexity = arguments->perplexity;
  command->add_option("--text", arguments->texts, "Text files in UTF-8")->required()->check(not_empty());
  command->add_option("--length", perplexity.length, "Tokens of a window, its special token included")
      ->required();
  command->add_option(
      "--stride", perplexity.stride,
      "Tokens that a window begins behind the one before it, and scores (default: all that it can)");
  command->add_option("--windows", perplexity.windows, "Only the first N windows of each text")
      ->check(one_or_more());
  command->add_option("--bins", perplexity.bins, "Bins of the curve over positions")->capture_default_str();
  arguments->options.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope eval perplexity --model assets/demo_model --text assets/demo_model/prompts/needle_2048.txt "
      "\\\n"
      "    --length 256 --policy keydiff --policy sink --budget 25% --block 32 --figure perplexity.svg");
  command->callback([=] { take(arguments->options, perplexity_task(*arguments)); });
}

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

EvalTask phonebook_task(const PhonebookArguments& arguments) {
  return {"phonebook", evaluation::phonebook_settings(arguments.task),
          [arguments](const capture::Model& model) { return examples_of(arguments, model); },
          [task = arguments.task](const EvalOutcome& outcome) { return report_of(task, outcome); }};
}

}  // namespace

void add_eval_phonebook(CLI::App& eval, const TakeEval& take) {
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
  command->callback([=] { take(arguments->options, phonebook_task(*arguments)); });
}

}  // namespace keyscope::commands
