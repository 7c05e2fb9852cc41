#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/benchmarks/benchmark.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/cli_fwd.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "capture/model/config.hpp"
#include "capture/model/model.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::commands {

// Where a benchmark's results go besides stdout.
struct BenchOutputs {
  JsonTarget json;
  std::string out;  // a figure: .png, .svg, .pdf or .h5; empty: none
  bool force = false;
  bool quiet = false;

  void add_to(CLI::App& command);
  // Before any work: whether all of it can be written.
  //   throws UsageError, FileError where it cannot
  void check() const;
};

// What benchmarks that run a model have in common: model, prompt, policies, and what is varied.
class BenchModelOptions {
 public:
  //   repeat: its default
  void add_to(CLI::App& command, std::int64_t repeat);
  // Also `--generate`, for those that time it.
  void add_generate(CLI::App& command);

  const ModelChoice& model() const { return model_; }
  //   throws UsageError on a value that cannot be understood
  capture::ModelOptions model_options() const;

  // What is varied. Where no `--tokens` was given it is the length of the prompt that was, else 2048 or the
  // model's whole context.
  benchmarks::Sweep sweep(const std::vector<std::int32_t>& prompt) const;
  // The prompt that was given, else ids drawn at random, as many as are asked for at most.
  //   throws InvalidInput where that is more than the model's context
  std::vector<std::int32_t> prompt(const capture::ModelConfig& config,
                                   const tokenizer::FolderTokenizer& tokenizer) const;

 private:
  std::vector<capture::Schedule> schedules() const;

  ModelChoice model_;
  PromptOptions prompt_;
  benchmarks::Sweep sweep_;
  std::string schedule_ = "block";
};

// What `bench score` takes.
void add_scoring_options(CLI::App& command, benchmarks::ScoringOptions& options);

// Prints the table, unless JSON goes to stdout, and writes JSON and figure where they were asked for.
//   config: of the model that ran; empty where none was needed
//   throws FileError where they cannot be written
void write_benchmark(const benchmarks::Benchmark& benchmark,
                     const std::optional<capture::ModelConfig>& config, const BenchOutputs& outputs);

// `bench live`: how much the window slows the run that it shows.
void add_bench_live(CLI::App& bench);

// `bench view`: what the window's frames cost.
void add_bench_view(CLI::App& bench);

}  // namespace keyscope::commands
