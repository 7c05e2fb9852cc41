#include <cstdint>
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
#include "app/evaluation/ruler.hpp"
#include "app/evaluation/ruler_report.hpp"
#include "app/evaluation/task_report.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

struct RulerArguments {
  EvalOptions options;
  EvalChatOptions chat;
  std::vector<std::string> lengths, needles{"plain"}, data;
  std::string squad, hotpotqa;
  evaluation::RulerOptions ruler;
};

std::vector<std::int64_t> asked_lengths(const std::vector<std::string>& texts) {
  std::vector<std::int64_t> lengths;
  for (const std::string& text : texts) {
    const auto length = evaluation::parse_ruler_length(text);
    if (!length)
      throw UsageError(fmt::format("--length {}: expected tokens, such as 4096 or 4K", shown(text)));
    lengths.push_back(*length);
  }
  return lengths;
}

evaluation::NeedleForms asked_forms(const std::vector<std::string>& words) {
  evaluation::NeedleForms forms;
  for (const std::string& word : words) {
    if (word != "plain" && word != "paraphrased" && word != "heterogeneous")
      throw UsageError(fmt::format(
          "--needles {}: expected plain, paraphrased, heterogeneous, or both of the last two", shown(word)));
    if (word == "plain" && words.size() > 1) throw UsageError("--needles: plain goes with nothing else");
    forms.paraphrased |= word == "paraphrased";
    forms.heterogeneous |= word == "heterogeneous";
  }
  return forms;
}

evaluation::RulerOptions asked_options(const RulerArguments& arguments) {
  evaluation::RulerOptions options = arguments.ruler;
  options.lengths = asked_lengths(arguments.lengths);
  options.needles = asked_forms(arguments.needles);
  options.data.assign(arguments.data.begin(), arguments.data.end());
  options.squad = arguments.squad;
  options.hotpotqa = arguments.hotpotqa;
  options.chat = arguments.chat.use();
  options.seed = arguments.options.seed;
  options.check();
  return options;
}

EvalReport report_of(const EvalOutcome& outcome) {
  const evaluation::Settings& settings = outcome.settings;
  const auto grid = evaluation::grid_of(settings);
  const evaluation::ScoreTable table(outcome.evaluation.results, grid);
  const auto report = evaluation::ruler_report(table, outcome.asked.examples, settings.seed);
  std::string caption = evaluation::report_caption(settings, outcome.asked.examples.size());
  for (const char* form : {"paraphrased", "heterogeneous"})
    if (settings.task_settings.value(form, false)) caption += fmt::format(" Needles are {}.", form);
  return {evaluation::ruler_table(report, grid),
          evaluation::benchmark_json(settings, evaluation::ruler_json(report, grid), outcome.asked.bad_rows),
          evaluation::ruler_figures(report, grid, caption)};
}

EvalTask ruler_task(const RulerArguments& arguments) {
  const auto options = asked_options(arguments);
  const auto examples = [options](const capture::Model& model) {
    evaluation::RulerSet set = evaluation::ruler_examples(options, model);
    return EvalExamples{std::move(set.examples), evaluation::ruler_scorer(*model.tokenizer()),
                        std::move(set.notes), std::move(set.bad)};
  };
  return {"ruler", evaluation::ruler_settings(options), examples, report_of};
}

void add_prompt_options(CLI::App& command, RulerArguments& arguments) {
  command.add_option("--task", arguments.ruler.tasks, "Of RULER's thirteen tasks; a list (default: all)")
      ->delimiter(',');
  command
      .add_option(
          "--length", arguments.lengths,
          "Tokens of a prompt and its answer, such as 4096 or 4K; a list (default: 4K, 8K … 128K, as the "
          "model's context allows)")
      ->delimiter(',');
  command
      .add_option("--samples", arguments.ruler.samples,
                  "Prompts of each task and length (default: 10; of --data all)")
      ->check(one_or_more());
  command
      .add_option("--data", arguments.data,
                  "Ask RULER's own rows instead: files of JSON lines, or folders with *.jsonl at any depth")
      ->check(not_empty());
  command
      .add_option(
          "--needles", arguments.needles,
          "plain: as published; paraphrased: stated in several ways; heterogeneous: of several kinds in "
          "one haystack; a list")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--haystack", arguments.ruler.haystack_path,
                     "Essays: a text file, or a folder of them (default: generated sentences)");
  command.add_option("--squad", arguments.squad, "SQuAD's JSON file, for qa_1")->check(not_empty());
  command.add_option("--hotpotqa", arguments.hotpotqa, "HotpotQA's JSON file, for qa_2")->check(not_empty());
  arguments.chat.add_to(command);
  add_skip_bad_rows(command, arguments.ruler.skip_bad);
}

}  // namespace

void add_eval_ruler(CLI::App& eval, const TakeEval& take) {
  auto arguments = std::make_shared<RulerArguments>();
  CLI::App* command = eval.add_subcommand(
      "ruler", "RULER's thirteen tasks at lengths of 4K to 128K, generated or from its own JSON lines");
  add_prompt_options(*command, *arguments);
  arguments->options.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope eval ruler --model assets/demo_model --task niah_single_1,niah_multikey_2,fwe \\\n"
      "    --length 512,1K --samples 2 --policy keydiff --policy sink --budget 25% --block 64 \\\n"
      "    --figure ruler.png");
  command->callback([=] { take(arguments->options, ruler_task(*arguments)); });
}

}  // namespace keyscope::commands
