#include "app/commands/eval_options.hpp"

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/option_checks.hpp"

namespace keyscope::commands {

void EvalOptions::add_to(CLI::App& command) {
  command.add_option("--model", model, "A model folder in Hugging Face layout")->required();
  command
      .add_option("--policy", policies,
                  policy_help() + "; repeatable, and none always runs as what they are compared with")
      ->allow_extra_args(false);
  command
      .add_option("--budget", budgets,
                  "N: rows kept per KV head, such as 128, or a share of each prompt, such as 25%; a list")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--block", blocks, "B: prompt tokens per block; a list")
      ->delimiter(',')
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--out", out, "Folder for results; an interrupted evaluation goes on there")
      ->check(not_empty());
  command.add_option("--json", json, "All numbers as JSON into a file; - is stdout");
  command.add_option("--figure", figures, "Also draw into this file: .png, .svg, .pdf or .h5; repeatable")
      ->allow_extra_args(false);
  command.add_option("--dtype", dtype, "auto, float32, bfloat16 or float16")->capture_default_str();
  command.add_option("--device", device, "auto, cpu or cuda")->capture_default_str();
  command.add_option("--threads", threads, "Threads for inference (default: all cores; one for tiny models)")
      ->check(one_or_more());
  command.add_option("--seed", seed, "Seed of what is drawn: examples, policies, the bootstrap")
      ->check(zero_or_more())
      ->capture_default_str();
  command.add_flag("--force", force, "Replace files; discard results of other settings in --out");
  command.add_flag("--quiet", quiet, "No progress");
}

evaluation::Settings EvalOptions::settings(const std::string& task,
                                           const nlohmann::ordered_json& task_settings) const {
  evaluation::Settings settings;
  settings.task = task;
  settings.policies = evaluation::parse_policies(policies);
  settings.budgets = evaluation::parse_budgets(budgets);
  settings.blocks = blocks;
  settings.seed = seed;
  settings.task_settings = task_settings;
  evaluation::check_grid(settings);
  return settings;
}

std::shared_ptr<const capture::Model> EvalOptions::load_model() const {
  capture::ModelOptions asked;
  asked.dtype = parse_dtype(dtype);
  asked.device = parse_device(device);
  asked.threads = threads;
  auto loaded = capture::Model::load(model, asked);
  if (loaded->tokenizer() == nullptr)
    throw FileError(fmt::format("{}: there is no tokenizer.json; an evaluation needs one", model));
  return loaded;
}

}  // namespace keyscope::commands
