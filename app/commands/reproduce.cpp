#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/eval.hpp"
#include "app/commands/options.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/grid/reproduction.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

struct ReproduceArguments {
  std::string file;
  ModelChoice model;
  std::string out;
  grid::ReproductionOptions options;
  std::vector<std::string> longbench, math500;
  std::string squad, hotpotqa;
  std::string json;
  bool force = false, dry_run = false, quiet = false;
};

grid::ReproductionOptions asked_options(const ReproduceArguments& arguments) {
  grid::ReproductionOptions options = arguments.options;
  options.longbench.assign(arguments.longbench.begin(), arguments.longbench.end());
  options.math500.assign(arguments.math500.begin(), arguments.math500.end());
  options.squad = arguments.squad;
  options.hotpotqa = arguments.hotpotqa;
  return options;
}

void print_reproduction_plan(const grid::Reproduction& reproduction) {
  const auto plan = reproduction.plan();
  say("{} results; at most {} tokens to run, less what prompts share.\n", format_count(plan.n_results),
      format_count(plan.tokens_asked));
  for (const grid::FoundRow& row : reproduction.rows())
    say("  {}: {}\n", row.row.what,
        row.cannot_run.empty() ? "would be run" : "cannot run here: " + row.cannot_run);
}

// With progress on stderr.
std::vector<grid::FoundRow> run_rows(const ReproduceArguments& arguments, grid::Reproduction& reproduction) {
  capture::CaptureControl control;
  OnInterrupt on_interrupt([&] { control.cancel(); });
  Progress progress("tokens", arguments.quiet);
  const auto show = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  return reproduction.run(arguments.out, arguments.force, {control, show});
}

constexpr const char *kTable = "table.txt", *kReproductionCost = "cost.json",
                     *kReproductionResults = "results.json";

// Numbers that are asked for as well may lie in OUT, under a name of their own.
void check_json_of_reproduction(const JsonTarget& target, const ReproduceArguments& arguments,
                                const grid::Reproduction& reproduction) {
  if (arguments.out.empty()) return;
  std::vector<std::filesystem::path> files = reproduction.files(arguments.out);
  for (const char* name : {kTable, kReproductionCost, kReproductionResults})
    files.push_back(std::filesystem::path(arguments.out) / name);
  files.push_back(target.file());
  require_different(files);
}

void write_reproduction(const ReproduceArguments& arguments, const nlohmann::ordered_json& json,
                        const std::string& table, const nlohmann::ordered_json& cost) {
  if (arguments.out.empty()) return;
  const std::filesystem::path out = arguments.out;
  write_file(out / kTable, table, true);
  write_file(out / kReproductionCost, json_text(cost, 2) + "\n", true);
  write_file(out / kReproductionResults, json_text(json, 2) + "\n", true);
}

void run_reproduce(const ReproduceArguments& arguments) {
  const grid::Experiment experiment = grid::read_experiment(arguments.file);
  const JsonTarget target{arguments.json, arguments.force};
  require_writable(target, arguments.out);
  const auto model = arguments.model.load(arguments.model.options());
  grid::Reproduction reproduction(experiment, asked_options(arguments), *model,
                                  results::identity_of(*model, hash_progress_line(arguments.quiet)));
  check_json_of_reproduction(target, arguments, reproduction);
  if (arguments.dry_run) return print_reproduction_plan(reproduction);
  const auto rows = run_rows(arguments, reproduction);
  const std::string command = grid::settling_command(experiment, arguments.file);
  const std::string table = grid::reproduction_table(experiment, rows, command);
  auto json = grid::reproduction_json(reproduction, rows, command);
  const auto cost = evaluation::cost_json(reproduction.evaluated());
  OutputsTogether outputs;
  write_reproduction(arguments, json, table, cost);
  if (target.given()) {
    json["cost"] = cost;
    write_json(target, json);
  }
  outputs.commit();
  if (target.is_stdout()) return;
  say("{}{}", table, reproduction.plan().n_results == 0 ? "" : cost_line(reproduction.evaluated()));
}

}  // namespace

void add_reproduce(CLI::App& app) {
  auto arguments = std::make_shared<ReproduceArguments>();
  CLI::App* command = app.add_subcommand(
      "reproduce",
      "A published claim, from a file of experiments/: the published number beside the one here");
  command->add_option("file", arguments->file, "The experiment")->required()->check(not_empty());
  arguments->model.add_model(*command)->required();
  add_out(*command, arguments->out, "reproduction");
  command
      ->add_option("--samples", arguments->options.samples,
                   "Of each task, instead of the experiment's; then nothing is settled")
      ->check(one_or_more());
  command
      ->add_option("--length", arguments->options.length,
                   "Tokens of prompts that are generated, likewise, for models of short contexts")
      ->check(one_or_more());
  command->add_option("--longbench", arguments->longbench, "LongBench's JSONL files, or a folder of them")
      ->allow_extra_args(false);
  command->add_option(
      "--haystack", arguments->options.haystack,
      "Essays around needles, RULER's among them: a file or a folder (default: generated sentences)");
  command->add_option("--squad", arguments->squad, "SQuAD's JSON file, for RULER's qa_1");
  command->add_option("--hotpotqa", arguments->hotpotqa, "HotpotQA's JSON file, for RULER's qa_2");
  command->add_option("--math500", arguments->math500, "Math-500's JSONL file")->allow_extra_args(false);
  arguments->model.add_arithmetic(*command);
  add_seed(*command, arguments->options.seed, "what is drawn: examples, policies, the bootstrap");
  command->add_option("--json", arguments->json, "Also write the numbers to FILE; - is stdout");
  command->add_flag("--force", arguments->force, "Replace FILE; discard results of other settings in --out");
  command->add_flag("--dry-run", arguments->dry_run, "Say what would be run and stop");
  add_quiet(*command, arguments->quiet);
  command->footer(
      "Example:\n"
      "  keyscope reproduce experiments/cliff-eviction.json --model assets/demo_model --length 256 --samples "
      "5");
  command->callback([arguments] { run_reproduce(*arguments); });
}

}  // namespace keyscope::commands
