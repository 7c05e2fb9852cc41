#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/errors.hpp"
#include "app/benchmarks/peak_memory.hpp"
#include "app/benchmarks/prefill.hpp"
#include "app/benchmarks/recording_overhead.hpp"
#include "app/benchmarks/scoring.hpp"
#include "app/commands/bench_live.hpp"
#include "app/commands/bench.hpp"
#include "app/commands/bench_output.hpp"
#include "app/commands/bench_view.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/progress.hpp"
#include "capture/recording/output_path.hpp"

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
  const auto model = capture::Model::load(options.model_folder(), model_options);
  const auto prompt = options.prompt(model->config(), model->tokenizer());
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
  const std::filesystem::path folder = options.model_folder();
  const capture::ModelConfig config = capture::read_config(folder);
  const auto tokenizer =
      std::filesystem::exists(folder / "tokenizer.json") ? tokenizer::Tokenizer::load(folder) : nullptr;
  const auto prompt = options.prompt(config, tokenizer.get());
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
  arguments->options.add_to(*command, 5);
  arguments->options.add_generate(*command);
  arguments->outputs.add_to(*command);
  command->footer(
      "Example:\n"
      "  keyscope bench prefill --model assets/demo_model --policy none --policy keydiff --policy tova \\\n"
      "    --budget 128,256 --block 64 --tokens 512 --schedule both --repeat 3 --out prefill.svg");
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
  arguments->options.add_to(*command, 5);
  arguments->outputs.add_to(*command);
  command->footer(
      "The recording is written beside --out, or into the current folder, and removed.\n\n"
      "Example:\n"
      "  keyscope bench capture --model assets/demo_model --policy none --policy keydiff --budget 128 \\\n"
      "    --block 64 --tokens 512 --repeat 3");
  command->callback([arguments] {
    run_with_model(*arguments, [&](const capture::Model& model, const benchmarks::Sweep& sweep,
                                   const std::vector<std::int32_t>& prompt, Monitor& monitor) {
      const std::filesystem::path folder = recording::folder_of(arguments->outputs.out);
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
  command->footer(
      "Example:\n  keyscope bench score --policy keydiff --policy h2o --keys 512,1024 --repeat 3");
}

}  // namespace keyscope::commands
