#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/console.hpp"
#include "app/commands/measures_table.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/progress.hpp"
#include "app/figures/head_selection.hpp"
#include "app/measures/measures_csv.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::commands {
namespace {

struct AnalyzeArguments {
  std::string file;
  std::vector<std::string> runs;
  std::string layers, kv_heads;
  JsonTarget json, csv{.path = {}, .option = "--csv"};
  bool no_bounds = false;
  bool quiet = false;
};

// Each run once, in the order in which they were asked for.
std::vector<int> find_runs(const recording::RecordingInfo& info, const std::vector<std::string>& names) {
  std::vector<int> runs;
  for (const auto& name : names) {
    const int run = figures::find_run(info, name);
    if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  }
  return runs;
}

void run_analyze(const AnalyzeArguments& arguments) {
  if (arguments.json.is_stdout() && arguments.csv.is_stdout())
    throw UsageError("--json - and --csv - would both write to standard output");
  for (const JsonTarget* target : {&arguments.json, &arguments.csv})
    require_writable(*target, arguments.file);
  const auto recording = recording::open_recording(arguments.file);
  const auto info = recording->info();
  measures::MeasureSelection selection;
  selection.runs = find_runs(*info, arguments.runs);
  selection.layers = parse_index_list(arguments.layers, "--layers");
  selection.kv_heads = parse_index_list(arguments.kv_heads, "--kv-heads");
  measures::MeasureOptions options;
  options.bounds = !arguments.no_bounds;

  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("heads", arguments.quiet);
  const auto runs = measures::measure_recording(
      *recording, selection, options,
      [&](std::int64_t done, std::int64_t total, const std::string& label) {
        progress.update(done, total, label);
      },
      cancelled);
  progress.clear();
  if (!arguments.json.is_stdout() && !arguments.csv.is_stdout()) print_measures(*info, runs);
  if (arguments.csv.given()) write_text(arguments.csv, measures::measures_csv(*info, runs));
  if (arguments.json.given()) write_json(arguments.json, measures::measures_json(*info, runs));
}

}  // namespace

void add_analyze(CLI::App& app) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  CLI::App* command = app.add_subcommand("analyze", "All statistics of a recording");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  command->add_option("--run", arguments->runs, "Only this run, repeatable")->allow_extra_args(false);
  command->add_option("--layers,--layer", arguments->layers, "Only these layers, such as 0,3,5-9")
      ->check(not_empty());
  command->add_option("--kv-heads,--kv-head", arguments->kv_heads, "Only these KV heads")->check(not_empty());
  command->add_option("--json", arguments->json.path, "Write the statistics as JSON; - for stdout");
  command->add_option("--csv", arguments->csv.path,
                      "Write them as CSV, a line per run, layer and KV head; - for stdout");
  command->add_flag("--no-bounds", arguments->no_bounds,
                    "Leave out Theorem 3.2 over all key-query pairs, the costly part");
  command->add_flag("--force", arguments->json.replace, "Replace existing --json and --csv files");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer("Example:\n  keyscope analyze needle.h5 --json needle.json");
  command->callback([arguments] {
    arguments->csv.replace = arguments->json.replace;
    run_analyze(*arguments);
  });
}

}  // namespace keyscope::commands
