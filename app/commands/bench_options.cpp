#include "app/commands/bench.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/options.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::commands {
namespace {

constexpr std::int64_t kTokens = 2048;

void add_counts(CLI::App& command, const std::string& name, std::vector<std::int64_t>& values,
                const std::string& help) {
  command.add_option(name, values, help)->delimiter(',')->allow_extra_args(false)->check(one_or_more());
}

void add_repeat(CLI::App& command, std::int64_t& repeat, std::int64_t by_default) {
  repeat = by_default;
  command.add_option("--repeat", repeat, "Repetitions, each of all combinations")
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
  if (json.given() && !json.is_stdout()) recording::output_path(json.path, json.replace);
  if (out.empty()) return;
  if (!figures::is_nexus_path(out)) figures::format_of(out);
  recording::output_path(out, force);
  // Neither of them need be there yet.
  const auto place = [](const std::string& path) { return std::filesystem::weakly_canonical(path); };
  if (json.given() && !json.is_stdout() && place(json.path) == place(out))
    throw UsageError(
        fmt::format("--json {}: that is where --out is written; choose another name", json.path));
}

void BenchModelOptions::add_to(CLI::App& command, std::int64_t repeat) {
  sweep_.policies = {"none", "keydiff", "sink", "tova", "h2o", "snapkv"};
  sweep_.budgets = {1024};
  sweep_.blocks = {128};
  model_.add_folder(command)->required();
  prompt_.add_to(command);
  command.add_option("--policy", sweep_.policies, policy_help())
      ->allow_extra_args(false)
      ->capture_default_str();
  add_counts(command, "--budget", sweep_.budgets, "N[,N…]: rows kept per KV head (default 1024)");
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
                                                    const tokenizer::Tokenizer* tokenizer) const {
  if (prompt_.given()) return prompt_.read(tokenizer, model_.folder());
  const std::int64_t room = config.context_length - std::max<std::int64_t>(sweep_.generate - 1, 0);
  const std::int64_t n_tokens = sweep_.n_tokens.empty() ? std::clamp<std::int64_t>(room, 1, kTokens)
                                                        : benchmarks::largest(sweep_.n_tokens);
  if (n_tokens > config.context_length)
    throw InvalidInput(
        fmt::format("--tokens {}: the model's context is {}", n_tokens, config.context_length));
  return benchmarks::random_prompt(n_tokens, config.vocab_size, sweep_.seed);
}

void add_scoring_options(CLI::App& command, benchmarks::ScoringOptions& options) {
  options.policies = {"keydiff", "sink", "l2norm", "tova", "h2o", "snapkv", "random"};
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
