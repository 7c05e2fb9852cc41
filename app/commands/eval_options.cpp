#include "app/commands/eval_options.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/options.hpp"

namespace keyscope::commands {

void EvalOptions::add_to(CLI::App& command) {
  model.add_folder(command)->required();
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
  add_out(command, out, "evaluation");
  command.add_option("--json", json, "All numbers as JSON into a file; - is stdout");
  command.add_option("--figure", figures, "Also draw into this file: .png, .svg, .pdf or .h5; repeatable")
      ->allow_extra_args(false);
  model.add_arithmetic(command);
  add_seed(command, seed, "what is drawn: examples, policies, the bootstrap");
  command.add_flag("--force", force, "Replace files; discard results of other settings in --out");
  command.add_flag("--dry-run", dry_run, "Say what would be run and stop");
  add_quiet(command, quiet);
}

evaluation::Settings EvalOptions::settings(const std::string& task,
                                           const nlohmann::ordered_json& task_settings) const {
  evaluation::Settings settings = evaluation::asked_grid(policies, budgets, blocks, seed);
  settings.task = task;
  settings.task_settings = task_settings;
  return settings;
}

std::shared_ptr<const capture::Model> EvalOptions::load_model() const {
  auto loaded = capture::Model::load(model.folder(), model.options());
  if (loaded->tokenizer() == nullptr)
    throw FileError(fmt::format("{}: there is no tokenizer.json; an evaluation needs one", model.folder()));
  return loaded;
}

}  // namespace keyscope::commands
