#include <memory>
#include <string>

#include "app/commands/eval.hpp"
#include "app/commands/eval_data.hpp"
#include "app/commands/eval_run.hpp"
#include "app/commands/option_checks.hpp"
#include "app/evaluation/benchmark_json.hpp"
#include "app/evaluation/math500.hpp"
#include "app/evaluation/math_report.hpp"

namespace keyscope::commands {
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

void run_math500(const MathArguments& arguments) {
  const auto options = asked_options(arguments);
  evaluation::MathSet set;
  const auto examples = [&](const capture::Model& model) {
    set = evaluation::read_math(options, model);
    return EvalExamples{set.examples, evaluation::math_scorer(*model.tokenizer()), {}, set.bad};
  };
  const auto report = [&](const EvalOutcome& outcome) {
    const auto grid = evaluation::grid_of(outcome.settings);
    const evaluation::ScoreTable table(outcome.evaluation.results, grid);
    const auto cells = evaluation::math_report(table, set.rows, static_cast<std::size_t>(options.samples),
                                               outcome.settings.seed);
    return EvalReport{evaluation::math_table(cells, grid),
                      evaluation::benchmark_json(outcome.settings, outcome.evaluation,
                                                 evaluation::math_json(cells, grid), outcome.asked.bad_rows)};
  };
  run_eval(arguments.options, {"math500", evaluation::math_settings(options), examples, report});
}

}  // namespace

void add_eval_math500(CLI::App& eval) {
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
  command->callback([arguments] { run_math500(*arguments); });
}

}  // namespace keyscope::commands
