#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/adoption/tasks.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/eval.hpp"
#include "app/commands/options.hpp"
#include "app/commands/report.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/grid/grid_run.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

using grid::Slot;

struct GridArguments {
  ModelChoice model;
  std::string out;
  grid::GridChoice choice;
  // Without the rows that some keep by themselves: those are protection.
  std::vector<std::string> scorers{"keydiff", "snapkv:recent=0", "h2o", "tova", "sink:first=0", "random"};
  bool full = false;
  std::vector<std::string> budgets{"25%", "50%"};
  std::vector<std::int64_t> blocks{128};
  TaskChoice tasks{.examples = 40};
  std::uint64_t seed = 0;
  std::string json;
  bool force = false, dry_run = false, quiet = false;
};

grid::GridPlan plan_of(const GridArguments& arguments) {
  grid::GridChoice choice = arguments.choice;
  choice.values[Slot::kScorer] = split_policies(arguments.scorers);
  if (choice.crossed == std::vector<std::string>{"none"}) choice.crossed.clear();
  if (arguments.full) choice.crossed = {"scorer", "protect", "granularity", "split"};
  return grid::plan_grid(choice);
}

adoption::TaskListOptions tasks_of(const GridArguments& arguments) {
  for (const std::string& task : arguments.tasks.names)
    if (task == "perplexity")
      throw UsageError("--task perplexity: a grid compares points of scores, which it has not; see `report`");
  return arguments.tasks.options(arguments.seed);
}

// Numbers that are asked for as well may lie in OUT, under a name of their own.
void check_json_of_grid(const GridArguments& arguments) {
  if (grid::is_of_grid(place_of(arguments.json).lexically_relative(place_of(arguments.out))))
    throw UsageError(
        fmt::format("--json {}: a grid writes there itself; choose another name", arguments.json));
}

void print_grid_plan(const grid::GridRun& run, const grid::GridFolder& folder) {
  const auto plan = folder.plan_left();
  std::size_t n_examples = 0;
  for (const adoption::Task& task : run.tasks) n_examples += task.examples.size();
  say("{} methods in {} settings, {} examples of {} tasks: {} results, {} of them from before; at most {} "
      "tokens to run, less what prompts share.\n",
      format_count(std::ssize(run.plan.methods)), format_count(std::ssize(grid::grid_settings(run.settings))),
      format_count(static_cast<long long>(n_examples)), run.tasks.size(), format_count(plan.n_results),
      format_count(plan.n_earlier), format_count(plan.tokens_asked));
  for (const grid::Method& method : run.plan.methods) say("  {}\n", method.policy);
}

// With progress on stderr.
grid::GridScores measure(const GridArguments& arguments, grid::GridFolder& folder) {
  capture::CaptureControl control;
  OnInterrupt on_interrupt([&] { control.cancel(); });
  Progress progress("tokens", arguments.quiet);
  const auto show = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  return folder.measure({control, show});
}

std::vector<std::string> bad_rows_of(const adoption::TaskList& tasks) {
  std::vector<std::string> rows;
  for (const adoption::Task& task : tasks.tasks())
    rows.insert(rows.end(), task.bad_rows.begin(), task.bad_rows.end());
  return rows;
}

void run_grid(const GridArguments& arguments) {
  const grid::GridPlan plan = plan_of(arguments);
  evaluation::Settings settings =
      grid::asked_settings(plan, arguments.budgets, arguments.blocks, arguments.seed);
  const JsonTarget target{arguments.json, arguments.force};
  if (target.given() && !target.is_stdout()) check_json_of_grid(arguments);
  require_writable(target, arguments.out);
  const adoption::TaskListOptions asked = tasks_of(arguments);
  const auto model = arguments.model.load(arguments.model.options());
  const adoption::TaskList tasks(asked, *model);
  settings.model = results::identity_of(*model, hash_progress_line(arguments.quiet));
  const grid::GridRun run{*model, settings, plan, tasks.tasks()};
  grid::GridFolder folder(arguments.out, run, arguments.force);
  if (arguments.dry_run) return print_grid_plan(run, folder);
  const grid::GridFindings findings = grid::find(measure(arguments, folder));
  const std::vector<std::string> bad_rows = bad_rows_of(tasks);
  auto json = grid::grid_json(findings, settings, bad_rows);
  OutputsTogether outputs;
  folder.write(findings, json, provenance_of_results());
  if (target.given()) {
    json["cost"] = evaluation::cost_json(folder.evaluated());
    write_json(target, json);
  }
  outputs.commit();
  if (target.is_stdout()) return;
  for (const std::string& row : bad_rows) say("Skipped: {}\n", row);
  say("{}{}", grid::grid_table(findings), cost_line(folder.evaluated()));
}

void add_slot_options(CLI::App& command, GridArguments& arguments) {
  grid::GridChoice& choice = arguments.choice;
  command.add_option("--base", choice.base, "The method that slots are varied from, one at a time: a policy")
      ->check(not_empty())
      ->capture_default_str();
  command
      .add_option("--scorer,--scorers", arguments.scorers,
                  policy_help() + "; several: with commas between them")
      ->allow_extra_args(false)
      ->capture_default_str();
  const auto add_values = [&](Slot slot, const char* help) {
    command.add_option(fmt::format("--{}", grid::slot_name(slot)), choice.values[slot], help)
        ->delimiter(',')
        ->check(not_empty());
  };
  choice.values[Slot::kProtection] = {"none", "sinks:4", "recent:0.1", "boundaries:0.1"};
  choice.values[Slot::kGranularity] = {"head"};
  choice.values[Slot::kSplit] = {"uniform"};
  add_values(Slot::kProtection,
             "Rows that stay whatever they score, a list, such as none,sinks:4,recent:0.1,boundaries:0.1");
  add_values(Slot::kGranularity, "What lives and dies together, a list of head, layer, page:16, model");
  add_values(Slot::kSplit, "How layers and heads share the budget, a list, such as uniform,pyramid");
  command
      .add_option("--cross", choice.crossed,
                  "Slots all of whose values are combined: scorer, protect, granularity, split, or none; the "
                  "others are varied from the base alone")
      ->delimiter(',')
      ->capture_default_str();
  command.add_flag("--full", arguments.full, "Combine all values of all slots");
  command.add_option("--reference", choice.reference, "The scorer that leads are measured from")
      ->check(not_empty())
      ->capture_default_str();
}

void add_work_options(CLI::App& command, GridArguments& arguments) {
  command
      .add_option("--budget,--budgets", arguments.budgets,
                  "Rows kept per KV head, such as 512, or shares of each prompt, such as 25%; a list")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--block", arguments.blocks, "B: prompt tokens per block; a list")
      ->delimiter(',')
      ->check(one_or_more())
      ->capture_default_str();
  arguments.tasks.add_to(command, "niah, niah-distractors, phonebook, longbench, math500, ruler");
}

}  // namespace

void add_grid(CLI::App& app) {
  auto arguments = std::make_shared<GridArguments>();
  CLI::App* command = app.add_subcommand(
      "grid", "What scorer, protection, granularity and budget split each change, one slot at a time");
  arguments->model.add_model(*command)->required();
  add_out(*command, arguments->out, "grid")->required();
  add_slot_options(*command, *arguments);
  add_work_options(*command, *arguments);
  arguments->model.add_arithmetic(*command);
  add_seed(*command, arguments->seed, "what is drawn: examples, policies, resampling");
  command->add_option("--json", arguments->json, "Also write the numbers to FILE; - is stdout");
  add_discard(*command, arguments->force);
  command->add_flag("--dry-run", arguments->dry_run, "Say what would be run and stop");
  add_quiet(*command, arguments->quiet);
  command->footer(
      "Example:\n"
      "  keyscope grid --model assets/demo_model --scorer keydiff,snapkv,random --protect none,recent:0.1 "
      "\\\n"
      "    --task niah --budget 50% --length 256 --examples 10 --out slots");
  command->callback([arguments] { run_grid(*arguments); });
}

}  // namespace keyscope::commands
