#include "capture/replay/replay.hpp"

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::commands {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayArguments {
  std::string file;
  std::vector<std::string> policies;
  replay::ReplayOptions options;
  std::string layers;
  std::string out;
  JsonTarget json;
  bool force = false;
  bool dry_run = false;
  bool quiet = false;
};

replay::ReplayOptions replay_options(const ReplayArguments& arguments) {
  replay::ReplayOptions options = arguments.options;
  options.policies = policies_of(arguments.policies);
  options.layers = parse_index_list(arguments.layers, "--layers");
  options.command = command_line();
  return options;
}

// Before any work: nothing replaces what it is made of, nor one output the other.
void check_replay_outputs(const ReplayArguments& arguments) {
  require_writable(arguments.json);
  if (arguments.out.empty()) return;
  output_path(arguments.out, arguments.force);
  require_different({{"--out", arguments.out}, {"--json", arguments.json.file()}});
}

// What the replayed sets are worth, in the words of the documentation.
std::vector<std::string> caveats(const replay::ReplayPlan& plan) {
  std::vector<std::string> exact, oracles, notes;
  for (const auto& run : plan.runs) (run.oracle ? oracles : exact).push_back(run.name);
  if (!exact.empty())
    notes.push_back(fmt::format("exact in layer {}, above it on full-cache keys: {}", plan.exact_layer,
                                shown_list(exact)));
  if (!oracles.empty())
    notes.push_back(
        fmt::format("oracles, scored by the attention of the whole prompt: {}", shown_list(oracles)));
  if (plan.store != recording::StoreType::kFloat32)
    notes.push_back(fmt::format("scores come from rows that were rounded to {} when recorded",
                                recording::store_name(plan.store)));
  return notes;
}

void print_plan(const replay::ReplayPlan& plan, const recording::RecordingInfo& info) {
  std::vector<std::string> names;
  names.reserve(plan.runs.size());
  for (const auto& run : plan.runs) names.push_back(run.name);
  const auto& first = plan.runs.front();
  say(stderr, "{}: {} on run {} of {}, {}, {}, budget {}, blocks of {}; about {} of disk\n", info.model.name,
      shown_list(names), info.runs[plan.source_run].plan.name, info.source,
      counted(info.n_prompt(), "prompt token"), counted(std::ssize(plan.layers), "layer"), first.budget,
      first.block_size, bytes_text(plan.disk_bytes));
  for (const std::string& note : caveats(plan)) say(stderr, "  {}\n", note);
}

Json outcome_json(const replay::ReplayPlan& plan, const recording::RecordingInfo& info,
                  const ReplayArguments& arguments, const std::vector<replay::RunOutcome>& outcomes) {
  Json json{{"format", 1}, {"source", arguments.file}, {"out", arguments.out}};
  json["run"] = info.runs[plan.source_run].plan.name;
  json["n_prompt"] = info.n_prompt();
  json["rounded"] = plan.store != recording::StoreType::kFloat32;
  json["runs"] = Json::array();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto& run = plan.runs[i];
    Json entry{{"run", run.name}, {"policy", run.policy}, {"parameters", parse_ordered_json(run.parameters)}};
    entry["budget"] = run.budget;
    entry["block_size"] = run.block_size;
    entry["replayed"] = true;
    entry["oracle"] = run.oracle;
    entry["heads"] = Json::array();
    for (const auto& head : outcomes[i].heads)
      entry["heads"].push_back({{"layer", head.layer},
                                {"kv_head", head.kv_head},
                                {"retained", head.n_retained},
                                {"evicted", info.n_prompt() - head.n_retained}});
    json["runs"].push_back(std::move(entry));
  }
  return json;
}

// With progress on stderr.
std::vector<replay::RunOutcome> replay_runs(const ReplayArguments& arguments, const replay::Source& source,
                                            const replay::ReplayPlan& plan,
                                            const std::atomic<bool>& cancelled) {
  Progress progress("rows", arguments.quiet);
  return replay::run_replay(
      source, plan, {arguments.out, arguments.force},
      [&](std::int64_t done, const std::string& run) { progress.update(done, plan.rows_total, run); },
      cancelled);
}

void run_replay_command(const ReplayArguments& arguments) {
  const replay::ReplayOptions options = replay_options(arguments);
  check_replay_outputs(arguments);
  const replay::Source source = replay::open_source(arguments.file);
  const auto info = source.recording->info();
  const replay::ReplayPlan plan = replay::plan_replay(source, options);
  if (!arguments.quiet || arguments.dry_run) print_plan(plan, *info);
  if (!arguments.out.empty())
    require_disk(arguments.out, plan.disk_bytes, "the replay", "replay fewer --layers, or use another disk");
  if (arguments.dry_run) return;

  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] {
    cancelled = true;
    cancel_policies(options.policies);
  });
  OutputsTogether outputs;
  const auto outcomes = replay_runs(arguments, source, plan, cancelled);
  if (arguments.json.given()) write_json(arguments.json, outcome_json(plan, *info, arguments, outcomes));
  outputs.commit();
}

void add_replay_options(CLI::App& command, ReplayArguments& arguments) {
  command.add_option("FILE", arguments.file, "A recording with a run that kept everything")->required();
  command
      .add_option("--policy", arguments.policies,
                  policy_help() + "; python:FILE.py:FUNCTION is one of your own")
      ->required()
      ->allow_extra_args(false);
  add_budget(command, arguments.options.budget)->required();
  command.add_option("--block", arguments.options.block_size, "B: prompt tokens per block")
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--run", arguments.options.run, "Whose keys: a run that kept everything")
      ->check(not_empty())
      ->capture_default_str();
  command.add_option("--layers", arguments.layers, "Layers to replay, such as 0,3,5-9 (default: all)")
      ->check(not_empty());
  command.add_option("--seed", arguments.options.seed, "Seed of policies that draw")
      ->check(zero_or_more())
      ->capture_default_str();
  command.add_option("--out", arguments.out, "The recording to write (HDF5)");
  command.add_option("--json", arguments.json.path, "Write what was retained, head by head; - for stdout");
  command.add_flag("--force", arguments.force, "Replace an existing --out or --json file");
  command.add_flag("--dry-run", arguments.dry_run, "Say what it would do and stop");
  command.add_flag("--quiet", arguments.quiet, "No progress");
}

}  // namespace

void add_replay(CLI::App& app) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = app.add_subcommand(
      "replay", "Simulate eviction on the keys of a recorded run that kept everything, without the model");
  add_replay_options(*command, *arguments);
  command->footer(
      "Layer 0 retains what a capture would; the layers above are simulated on full-cache keys and queries,\n"
      "which scorers that look at queries are given block by block. tova, h2o and snapkv become oracles: "
      "they\n"
      "score by the attention of the whole prompt.\n\n"
      "Example:\n"
      "  keyscope replay needle.h5 --policy keydiff --policy keydiff:recent=0.2 --policy h2o --budget 128 "
      "\\\n"
      "    --block 64 --out replayed.h5");
  command->callback([arguments] {
    if (arguments->out.empty() && !arguments->dry_run)
      throw UsageError("replay: --out FILE is needed (or --dry-run)");
    arguments->json.replace = arguments->force;
    run_replay_command(*arguments);
  });
}

}  // namespace keyscope::commands
