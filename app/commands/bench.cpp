#include "app/commands/bench.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"

namespace keyscope::commands {

namespace {

using benchmarks::Benchmark;
using benchmarks::Monitor;

// Runs a benchmark with progress on stderr; Ctrl-C ends it.
Benchmark watched(const std::string& unit, bool quiet, const std::function<Benchmark(Monitor&)>& run) {
  Monitor monitor;
  Progress progress(unit, quiet);
  monitor.on_progress = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  OnInterrupt on_interrupt([&] { monitor.control.cancel(); });
  try {
    return run(monitor);
  } catch (const Cancelled&) {
    progress.clear();
    throw Cancelled("interrupted; a benchmark that is not complete says nothing");
  }
}

struct ModelArguments {
  BenchModelOptions options;
  BenchOutputs outputs;
};

// Loads the model, reads the prompt, and hands both to the benchmark.
using ModelBenchmark = std::function<Benchmark(const capture::Model&, const benchmarks::Sweep&,
                                               const std::vector<std::int32_t>&, Monitor&)>;
void run_with_model(ModelArguments& arguments, const ModelBenchmark& run) {
  const BenchModelOptions& options = arguments.options;
  arguments.outputs.json.replace = arguments.outputs.force;
  arguments.outputs.check();
  const capture::ModelOptions model_options = options.model_options();
  benchmarks::cases_of(options.sweep({}));  // a policy that is not known is said before anything is read
  const auto model = options.model().load(model_options);
  const auto prompt = options.prompt(model->config(), model->folder_tokenizer());
  const benchmarks::Sweep sweep = options.sweep(prompt);
  const Benchmark benchmark = watched("tokens", arguments.outputs.quiet,
                                      [&](Monitor& monitor) { return run(*model, sweep, prompt, monitor); });
  write_benchmark(benchmark, model->config(), arguments.outputs);
}

// The tokenizer alone: every combination loads the model by itself.
void run_memory(ModelArguments& arguments) {
  const BenchModelOptions& options = arguments.options;
  arguments.outputs.json.replace = arguments.outputs.force;
  arguments.outputs.check();
  const capture::ModelOptions model_options = options.model_options();
  benchmarks::cases_of(options.sweep({}));
  const std::filesystem::path folder = options.model().folder();
  const capture::ModelConfig config = capture::read_config(folder);
  const auto prompt = options.prompt(config, tokenizer::FolderTokenizer(folder));
  const benchmarks::Sweep sweep = options.sweep(prompt);
  const Benchmark benchmark = watched("runs", arguments.outputs.quiet, [&](Monitor& monitor) {
    return benchmarks::measure_peak_memory(folder, model_options, sweep, prompt, monitor);
  });
  write_benchmark(benchmark, config, arguments.outputs);
}

void add_prefill(CLI::App& bench) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App* command =
      bench.add_subcommand("prefill", "Time to the first token, by policy, budget, block and prompt length");
  arguments->options.add_to(*command, benchmarks::kLeastRounds);
  arguments->options.add_generate(*command);
  arguments->outputs.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope bench prefill --model assets/demo_model --policy none --policy keydiff --policy tova \\\n"
      "    --budget 128,256 --block 64 --tokens 512 --schedule both --out prefill.svg");
  command->callback([arguments] { run_with_model(*arguments, benchmarks::measure_prefill); });
}

void add_score(CLI::App& bench) {
  struct Arguments {
    benchmarks::ScoringOptions options;
    BenchOutputs outputs;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      bench.add_subcommand("score", "Cost of scoring and selecting alone, by policy and number of keys");
  add_scoring_options(*command, arguments->options);
  arguments->outputs.add_to(*command);
  command->footer("Example:\n  keyscope bench score --keys 512,1024,2048 --head-dim 64 --out score.png");
  command->callback([arguments] {
    arguments->outputs.json.replace = arguments->outputs.force;
    arguments->outputs.check();
    const Benchmark benchmark = watched("measurements", arguments->outputs.quiet, [&](Monitor& monitor) {
      return benchmarks::measure_scoring(arguments->options, monitor);
    });
    write_benchmark(benchmark, std::nullopt, arguments->outputs);
  });
}

void add_capture_overhead(CLI::App& bench) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App* command = bench.add_subcommand("capture", "What recording costs over the same run without it");
  arguments->options.add_to(*command, benchmarks::kLeastRounds);
  arguments->outputs.add_to(*command);
  command->footer(
      "The recording is written beside --out, or into the current folder, and removed.\n\n"
      "Example:\n"
      "  keyscope bench capture --model assets/demo_model --policy none --policy keydiff --budget 128 \\\n"
      "    --block 64 --tokens 512");
  command->callback([arguments] {
    run_with_model(*arguments, [&](const capture::Model& model, const benchmarks::Sweep& sweep,
                                   const std::vector<std::int32_t>& prompt, Monitor& monitor) {
      const std::filesystem::path folder = folder_of(arguments->outputs.out);
      return benchmarks::measure_recording_overhead(model, sweep, prompt, folder, monitor);
    });
  });
}

void add_memory(CLI::App& bench) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App* command =
      bench.add_subcommand("memory", "Peak memory and cache, by policy and prompt length, each in a process");
  arguments->options.add_to(*command, 1);
  arguments->outputs.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope bench memory --model assets/demo_model --policy none --policy keydiff --budget 128 \\\n"
      "    --block 64 --tokens 256,512 --json memory.json");
  command->callback([arguments] { run_memory(*arguments); });
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure: prefill, scoring, recording, memory, the window");
  command->require_subcommand(1);
  add_prefill(*command);
  add_score(*command);
  add_capture_overhead(*command);
  add_memory(*command);
  add_bench_view(*command);
  add_bench_live(*command);
  command->footer("Example:\n  keyscope bench score --policy keydiff --policy h2o --keys 512,1024");
}

namespace {

constexpr std::int64_t kTokens = 2048;

void add_counts(CLI::App& command, const std::string& name, std::vector<std::int64_t>& values,
                const std::string& help) {
  command.add_option(name, values, help)->delimiter(',')->allow_extra_args(false)->check(one_or_more());
}

void add_repeat(CLI::App& command, std::int64_t& repeat, std::int64_t by_default) {
  repeat = by_default;
  command
      .add_option("--repeat", repeat,
                  fmt::format("Repetitions, each of all combinations; ratios of times need {}",
                              benchmarks::kLeastRounds))
      ->check(one_or_more())
      ->capture_default_str();
}

}  // namespace

void BenchOutputs::add_to(CLI::App& command) {
  command.add_option("--json", json.path, "Write the rows as JSON; - for stdout, without the table");
  command.add_option("--out", out, "Draw them: .png, .svg, .pdf or .h5");
  command.add_flag("--force", force, "Replace an existing --json or --out file");
  add_quiet(command, quiet);
}

void BenchOutputs::check() const {
  if (json.given() && !json.is_stdout()) output_path(json.path, json.replace);
  if (out.empty()) return;
  if (!figures::is_nexus_path(out)) figures::format_of(out);
  output_path(out, force);
  require_different({{"--out", out}, {"--json", json.file()}});
}

void BenchModelOptions::add_to(CLI::App& command, std::int64_t repeat) {
  sweep_.policies = {"none", "keydiff", "sink", "tova", "h2o", "snapkv"};
  sweep_.budgets = {1024};
  sweep_.blocks = {128};
  model_.add_model(command)->required();
  prompt_.add_to(command);
  command.add_option("--policy", sweep_.policies, policy_help())
      ->allow_extra_args(false)
      ->capture_default_str();
  add_budgets(command, sweep_.budgets, "1024");
  add_counts(command, "--block", sweep_.blocks, "B[,B…]: prompt tokens per block (default 128)");
  add_counts(command, "--tokens", sweep_.n_tokens,
             "Prompt lengths (default: the whole of a given prompt, else 2048 ids at random)");
  command.add_option("--schedule", schedule_, "block (as a device does), layer, or both")
      ->capture_default_str();
  add_repeat(command, sweep_.repeat, repeat);
  model_.add_arithmetic(command);
  add_seed(command, sweep_.seed, "random prompts, and of policies that draw");
}

void BenchModelOptions::add_generate(CLI::App& command) {
  command.add_option("--generate", sweep_.generate, "Also generate so many tokens, and time that by itself")
      ->check(zero_or_more());
}

capture::ModelOptions BenchModelOptions::model_options() const {
  capture::ModelOptions options = model_.options();
  options.may_stream = schedules() == std::vector{capture::Schedule::kLayer};
  return options;
}

std::vector<capture::Schedule> BenchModelOptions::schedules() const {
  using capture::Schedule;
  if (schedule_ == "block") return {Schedule::kBlock};
  if (schedule_ == "layer") return {Schedule::kLayer};
  if (schedule_ == "both") return {Schedule::kBlock, Schedule::kLayer};
  throw UsageError(fmt::format("--schedule: '{}' is not one of block, layer, both", schedule_));
}

benchmarks::Sweep BenchModelOptions::sweep(const std::vector<std::int32_t>& prompt) const {
  benchmarks::Sweep sweep = sweep_;
  sweep.schedules = schedules();
  if (sweep.n_tokens.empty()) sweep.n_tokens = {static_cast<std::int64_t>(prompt.size())};
  return sweep;
}

std::vector<std::int32_t> BenchModelOptions::prompt(const capture::ModelConfig& config,
                                                    const tokenizer::FolderTokenizer& tokenizer) const {
  if (prompt_.given()) return prompt_.read(tokenizer, model_.folder());
  const std::int64_t room = config.context_length - std::max<std::int64_t>(sweep_.generate - 1, 0);
  const std::int64_t n_tokens = sweep_.n_tokens.empty() ? std::clamp<std::int64_t>(room, 1, kTokens)
                                                        : benchmarks::largest(sweep_.n_tokens);
  if (n_tokens > config.context_length)
    throw InvalidInput(
        fmt::format("--tokens {}: the model's context is {}", n_tokens, config.context_length));
  return benchmarks::random_prompt(n_tokens, config.vocab_size, sweep_.seed);
}

namespace {

// All that score; a file that a policy needs is made up.
std::vector<std::string> policies_that_score() {
  std::vector<std::string> names;
  for (const analysis::PolicyEntry& policy : analysis::registered_policies())
    if (policy.name != "none") names.push_back(policy.name + (policy.required.empty() ? "" : ":file=ones"));
  return names;
}

}  // namespace

void add_scoring_options(CLI::App& command, benchmarks::ScoringOptions& options) {
  options.policies = policies_that_score();
  options.n_keys = {512, 1024, 2048, 4096, 8192};
  command.add_option("--policy", options.policies, policy_help())
      ->allow_extra_args(false)
      ->capture_default_str();
  add_counts(command, "--keys", options.n_keys, "Keys of one KV head (default 512,1024,2048,4096,8192)");
  command.add_option("--head-dim", options.head_dim, "d: coordinates of a key")
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--block", options.block, "B: so many of the keys are evicted")
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--group", options.group_size, "G: query heads that share the KV head")
      ->check(one_or_more())
      ->capture_default_str();
  add_repeat(command, options.repeat, 9);
  command.add_option("--seed", options.seed, "Seed of the keys, and of policies that draw")
      ->check(zero_or_more())
      ->capture_default_str();
}

}  // namespace keyscope::commands
