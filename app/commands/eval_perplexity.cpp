#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/commands/eval.hpp"
#include "app/commands/eval_run.hpp"
#include "app/commands/option_checks.hpp"
#include "app/evaluation/benchmark_json.hpp"
#include "app/evaluation/perplexity.hpp"
#include "app/evaluation/perplexity_figure.hpp"
#include "app/evaluation/perplexity_report.hpp"

namespace keyscope::commands {
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

void run_perplexity(const PerplexityArguments& arguments) {
  evaluation::PerplexityOptions options = arguments.perplexity;
  options.texts = {arguments.texts.begin(), arguments.texts.end()};
  evaluation::PerplexitySet set;
  const auto examples = [&](const capture::Model& model) {
    set = evaluation::read_texts(options, model);
    return EvalExamples{set.examples, evaluation::perplexity_scorer(set)};
  };
  const auto report = [&](const EvalOutcome& outcome) {
    const evaluation::Settings& settings = outcome.settings;
    const auto grid = evaluation::grid_of(settings);
    const evaluation::ScoreTable table(outcome.evaluation.results, grid);
    const auto cells = evaluation::perplexity_report(table, set, settings.seed);
    return EvalReport{
        evaluation::perplexity_table(cells, grid),
        evaluation::benchmark_json(settings, outcome.evaluation,
                                   evaluation::perplexity_json(cells, grid, set), outcome.asked.bad_rows),
        {evaluation::perplexity_figure(cells, grid, set, caption(settings, set))}};
  };
  run_eval(arguments.options, {"perplexity", evaluation::perplexity_settings(options), examples, report});
}

}  // namespace

void add_eval_perplexity(CLI::App& eval) {
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
  command->callback([arguments] { run_perplexity(*arguments); });
}

}  // namespace keyscope::commands
