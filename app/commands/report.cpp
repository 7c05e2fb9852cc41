#include "app/commands/report.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/adoption/adoption.hpp"
#include "app/adoption/adoption_report.hpp"
#include "app/adoption/measurement.hpp"
#include "app/adoption/tasks.hpp"
#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

using adoption::Adoption;
using adoption::Candidate;
using adoption::TaskKind;
using adoption::TaskOutcome;

// Points of a score, per cent of a perplexity.
std::string loss_text(const adoption::TaskLoss& task, double tolerance) {
  if (task.after_eviction == 0) return "none evicted";
  if (!adoption::solved_by_full(task, tolerance)) return "not solved";
  const double percent = adoption::percent_lost(task.kind, task.loss.mean);
  return fmt::format("{}{:.1f}", percent < -0.05 ? "-" : "", std::abs(percent));
}

std::string full_line(const TaskOutcome& task) {
  const std::string score = task.kind == TaskKind::kScore ? fmt::format("{:.1f} %", 100 * task.full.mean)
                                                          : fmt::format("{:.3f}", std::exp(task.full.mean));
  return fmt::format("  {:<18}{} {} over {}\n", task.name, task.metric, score, examples_text(task));
}

std::string candidate_line(const Adoption& adoption, std::size_t index, std::size_t width) {
  const Candidate& candidate = adoption.candidates[index];
  std::string line = fmt::format("  {:<{}}{:>7}{:>8.1f} %", candidate.policy, width, candidate.budget,
                                 100 * candidate.memory_share);
  if (adoption.latency_repeat > 0)
    line += fmt::format("{:>20}", benchmarks::ratio_text(*candidate.first_token_ratio));
  for (const adoption::TaskLoss& task : candidate.losses)
    line += fmt::format("{:>18}", loss_text(task, adoption.rule.tolerance));
  return line + fmt::format("   {}{}\n", adoption::fitness_name(adoption.recommendation.fitness[index]),
                            std::cmp_equal(index, adoption.recommendation.chosen) ? ", recommended" : "");
}

// What TTFT is of, and why it cannot be told.
std::string latency_notes(const Adoption& adoption) {
  std::string text =
      fmt::format("\nTTFT: time to the first token of {} tokens, median of {} with its {:.0f} % interval\n",
                  adoption.full_memory.p95_length, counted(adoption.latency_repeat, "paired round"),
                  100 * benchmarks::kRatioConfidence);
  for (const std::string& doubt : adoption::latency_doubts(adoption))
    text += fmt::format("  cannot be told: {}\n", doubt);
  return text;
}

// The report in short, for a terminal: the recommendation, and per policy and budget what each task loses.
std::string report_table(const Adoption& adoption) {
  std::string text =
      fmt::format("{}\n\nFull cache\n",
                  adoption::recommendation_text(adoption.recommendation, adoption.candidates, adoption.rule));
  for (const TaskOutcome& task : adoption.tasks) text += full_line(task);
  std::size_t width = 10;
  for (const Candidate& candidate : adoption.candidates) width = std::max(width, candidate.policy.size() + 2);
  text += fmt::format(
      "\nWhat is lost where something was evicted: points of a score, per cent of perplexity\n  "
      "{:<{}}{:>7}{:>10}",
      "policy", width, "budget", "memory");
  if (adoption.latency_repeat > 0) text += fmt::format("{:>20}", "TTFT, × full");
  for (const TaskOutcome& task : adoption.tasks) text += fmt::format("{:>18}", task.name);
  text += "\n";
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i) text += candidate_line(adoption, i, width);
  if (adoption.latency_repeat > 0) text += latency_notes(adoption);
  return text + fmt::format("\nRule: {}\n", adoption::rule_text(adoption.rule));
}

adoption::MeasurementOptions measured(const ReportArguments& arguments,
                                      std::span<const results::Prompt> diagnosed) {
  adoption::MeasurementOptions options;
  options.tolerance = arguments.tolerance_points / 100;
  options.latency_repeat = arguments.repeat;
  options.diagnosed = diagnosed;
  options.discard = arguments.force;
  return options;
}

adoption::Adoption measure_adoption(const ReportArguments& arguments, StudyChoice& study,
                                    const capture::Model& model, const evaluation::Settings& settings,
                                    const adoption::TaskList& tasks,
                                    std::span<const results::Prompt> diagnosed) {
  std::atomic<bool> cancelled = false;
  benchmarks::Monitor monitor;
  OnInterrupt on_interrupt([&] {
    cancelled = true;
    monitor.control.cancel();
  });
  Progress progress("tokens", arguments.quiet);
  monitor.on_progress = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  adoption::MeasurementOptions options = measured(arguments, diagnosed);
  options.find_line = study.find_line();
  options.find_record = study.find_record();
  try {
    return adoption::measure_adoption(model, settings, tasks.tasks(), options, arguments.out,
                                      {monitor, cancelled});
  } catch (const Cancelled&) {
    throw Cancelled(
        fmt::format("interrupted; what was done is kept in {}, and the same command goes on", arguments.out));
  }
}

// Numbers that are asked for as well may lie in OUT, under a name of their own.
void check_json(const ReportArguments& arguments) {
  const auto inside = place_of(arguments.json).lexically_relative(place_of(arguments.out));
  if (adoption::is_of_report(inside))
    throw UsageError(
        fmt::format("--json {}: a report writes there itself; choose another name", arguments.json));
}

void run_report(const ReportArguments& arguments) {
  evaluation::Settings settings = report_settings(arguments);
  const JsonTarget json{arguments.json, arguments.force};
  if (json.given() && !json.is_stdout()) check_json(arguments);
  require_writable(json, arguments.out);
  StudyChoice study = arguments.study;
  study.open(arguments.out);
  const auto model = arguments.model.load(arguments.model.options());
  const adoption::TaskList tasks(arguments.tasks.options(arguments.seed), *model);
  settings.model = results::identity_of(*model, hash_progress_line(arguments.quiet));
  const auto prompts = adoption::choose_prompts(tasks.tasks(), arguments.diagnosed);
  adoption::check_diagnosis_memory(*model, settings, prompts);
  const auto folder = adoption::claim_folder(arguments.out, settings, tasks.tasks(), arguments.force);
  const adoption::Adoption adoption = measure_adoption(arguments, study, *model, settings, tasks, prompts);
  const std::filesystem::path out = arguments.out;
  OutputsTogether outputs;
  adoption::write_adoption(adoption, *model, prompts, provenance_of_results(), out);
  if (json.given()) write_json(json, adoption::adoption_json(adoption));
  outputs.commit();
  try {
    adoption::remove_older_figures(adoption, out);
  } catch (const std::filesystem::filesystem_error& error) {  // the report is there, and whole
    say(stderr, "keyscope: warning: {}: an older figure could not be removed: {}\n", error.path1().string(),
        error.code().message());
  }
  if (json.is_stdout()) return;
  for (const adoption::TaskOutcome& task : adoption.tasks)
    for (const std::string& row : task.bad_rows) say("Skipped: {}\n", row);
  say("{}{}\nReport     {}\nNumbers    {}\nFigures    {}\n", report_table(adoption), study.summary(),
      (out / "report.html").string(), (out / "report.json").string(), (out / "report.h5").string());
}

void add_work_options(CLI::App& command, ReportArguments& arguments) {
  arguments.model.add_model(command)->required();
  add_out(command, arguments.out, "report")->required();
  command
      .add_option("--policies,--policy", arguments.policies,
                  policy_help() + "; several: with commas between them")
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      .add_option("--budgets,--budget", arguments.budgets,
                  "Rows kept per KV head, such as 512, or shares of each prompt, such as 25%")
      ->delimiter(',')
      ->capture_default_str();
  add_block(command, arguments.block);
  command.add_option("--text", arguments.tasks.texts, "Texts for perplexity")->allow_extra_args(false);
  arguments.tasks.add_to(command, fmt::format("{}", fmt::join(adoption::task_names(), ", ")));
}

void add_rule_options(CLI::App& command, ReportArguments& arguments) {
  command
      .add_option("--tolerance", arguments.tolerance_points,
                  "Points of a score, or per cent of perplexity, that any task may lose")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command
      .add_option("--repeat", arguments.repeat,
                  fmt::format("Rounds of the time to the first token, whose ratios need {}; 0: not measured",
                              benchmarks::kLeastRounds))
      ->check(zero_or_more())
      ->capture_default_str();
  command
      .add_option("--diagnose", arguments.diagnosed.most,
                  "Prompts whose keys and attention are looked at; 0: none")
      ->check(zero_or_more())
      ->capture_default_str();
  command
      .add_option("--diagnose-length", arguments.diagnosed.max_tokens,
                  "Tokens of the longest of these prompts, which are held in memory (default: any number)")
      ->check(one_or_more());
  arguments.model.add_arithmetic(command);
  add_seed(command, arguments.seed, "what is drawn: prompts, policies, the bootstrap");
  command.add_option("--json", arguments.json, "Also write the numbers to FILE; - is stdout");
  add_discard(command, arguments.force);
  arguments.study.add_to(command);
  add_quiet(command, arguments.quiet);
}

}  // namespace

evaluation::Settings report_settings(const ReportArguments& arguments) {
  evaluation::Settings settings = evaluation::asked_grid(
      split_policies(arguments.policies), arguments.budgets, {arguments.block}, arguments.seed);
  if (settings.policies.empty())
    throw UsageError("--policies: none asked for; a report compares at least one with the full cache");
  return settings;
}

void TaskChoice::add_to(CLI::App& command, const std::string& all) {
  command
      .add_option(
          "--tasks,--task", names,
          fmt::format("Of {} (default: those that need no files, and those whose files are given)", all))
      ->delimiter(',');
  command.add_option("--longbench", longbench, "LongBench's JSONL files, or a folder of them")
      ->allow_extra_args(false);
  command.add_option("--math500", math500, "Math-500's JSONL file")->allow_extra_args(false);
  command.add_option("--ruler", ruler, "RULER's JSONL files, or a folder of them")->allow_extra_args(false);
  command.add_flag("--skip-bad", skip_bad, "Go on without rows that cannot be used, naming them");
  command.add_option("--examples,--samples", examples, "Of each task, as far as its data have them")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--length", length,
                  "Tokens of the longest prompt that is made up (default: half the model's context)")
      ->check(one_or_more());
}

adoption::TaskListOptions TaskChoice::options(std::uint64_t seed) const {
  adoption::TaskListOptions options;
  options.names = names;
  options.examples = examples;
  options.length = length;
  options.texts.assign(texts.begin(), texts.end());
  options.longbench.assign(longbench.begin(), longbench.end());
  options.math500.assign(math500.begin(), math500.end());
  options.ruler.assign(ruler.begin(), ruler.end());
  options.skip_bad = skip_bad;
  options.seed = seed;
  return options;
}

void add_report_options(CLI::App& command, ReportArguments& arguments) {
  add_work_options(command, arguments);
  add_rule_options(command, arguments);
}

void add_report(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Whether eviction may be deployed: what tasks lose, time, memory, and a recommendation by a rule");
  add_report_options(*command, *arguments);
  command->footer(
      "Example:\n"
      "  keyscope report --model assets/demo_model --policies keydiff,sink --budgets 50% --length 256 \\\n"
      "    --examples 20 --out adoption");
  command->callback([arguments] { run_report(*arguments); });
}

}  // namespace keyscope::commands
