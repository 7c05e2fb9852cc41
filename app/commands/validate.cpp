#include "app/commands/validate.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/validation/validation.hpp"
#include "app/validation/validation_report.hpp"
#include "base/interval_text.hpp"
#include "base/text.hpp"
#include "capture/model/memory.hpp"

namespace keyscope::commands {

namespace {

using validation::Claim;
using validation::Finding;

std::string finding_line(const Finding& finding) {
  const analysis::BootstrapMean& mean = finding.mean;
  std::string line = fmt::format("    {:<18}{:>10}  {:<20}{:>4} prompts", finding.label,
                                 number_text(mean.mean, interval_decimals(mean.low, mean.high, 0)),
                                 interval_text(mean.low, mean.high), mean.n_samples);
  if (finding.tally)
    line += fmt::format("  {} of {} pairs violate it", finding.tally->violations, finding.tally->pairs);
  return line + fmt::format("  {}\n", validation::verdict_text(finding));
}

std::string claim_lines(const Claim& claim) {
  std::string lines = fmt::format("{}  [{}]\n", claim.question, validation::verdict_text(claim));
  lines += fmt::format("    {}{} ({})\n", claim.quantity, claim.units.empty() ? "" : ", " + claim.units,
                       claim.source);
  for (const Finding& finding : claim.findings) lines += finding_line(finding);
  if (claim.without_sinks) {
    lines += fmt::format("    without learned sinks  [{}]\n", validation::verdict_text(*claim.without_sinks));
    for (const Finding& finding : claim.without_sinks->findings) lines += finding_line(finding);
  }
  if (claim.heads > 0)
    lines += fmt::format("    {} of {} KV heads lie on the claimed side of zero\n", claim.heads_agreeing,
                         claim.heads);
  if (!claim.remark.empty()) lines += fmt::format("    {}\n", claim.remark);
  return lines + fmt::format("    rule: {}\n", claim.rule);
}

// What `validate` prints: the headline, then every claim with its means, intervals, verdict and the rule it
// was judged by, and apart from them what is proved.
std::string validate_table(const validation::Report& report) {
  std::string text = fmt::format("{}.\n\n{}\n{}; {}\nMeans over prompts, with {:.0f} % bootstrap intervals\n",
                                 validation::headline(report), validation::describe_model(report),
                                 validation::describe_extent(report), validation::describe_eviction(report),
                                 100 * report.bootstrap.confidence);
  if (const std::string sinks = validation::describe_sinks(report); !sinks.empty())
    text += fmt::format("In this model {}\n", sinks);
  for (const Claim& claim : report.claims) text += fmt::format("\n{}", claim_lines(claim));
  text += "\nTheorems: what is proved cannot fail but by a bug in Keyscope or in the recording\n";
  for (const Claim& theorem : report.theorems) text += fmt::format("\n{}", claim_lines(theorem));
  return text;
}

}  // namespace

validation::Settings validation_settings(const ValidateArguments& arguments) {
  validation::Settings settings;
  std::vector<analysis::PolicySpec> policies;
  policies.reserve(arguments.policies.size());
  for (const std::string& text : arguments.policies) policies.push_back(analysis::parse_policy(text));
  settings.policies = validation::complete_policies(std::move(policies));
  settings.budget = analysis::parse_budget(arguments.budget);
  settings.block_size = arguments.block;
  settings.max_tokens = arguments.max_tokens;
  settings.seed = arguments.seed;
  return settings;
}

capture::ModelOptions validation_model_options(const ValidateArguments& arguments) {
  capture::ModelOptions options = arguments.model.options();
  options.may_stream = true;
  return options;
}

namespace {

std::vector<validation::PromptRecord> measure_prompts(const ValidateArguments& arguments,
                                                      const capture::Model& model,
                                                      const validation::Settings& settings,
                                                      const std::vector<results::Prompt>& prompts,
                                                      const validation::ResultFolder& folder) {
  std::atomic<bool> cancelled = false;
  capture::CaptureControl control;
  OnInterrupt on_interrupt([&] {
    cancelled = true;
    control.cancel();
  });
  Progress progress("tokens", arguments.quiet);
  const auto show = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  return validation::measure_prompts(model, settings, prompts, folder, arguments.keep_recordings,
                                     {control, cancelled, show});
}

void run_validate(const ValidateArguments& arguments) {
  StudyChoice study = arguments.study;
  study.open(arguments.out);
  validation::Settings settings = validation_settings(arguments);
  const auto model = arguments.model.load(validation_model_options(arguments));
  const auto prompts = results::read_prompts(arguments.prompts, model->config(), model->folder_tokenizer(),
                                             arguments.max_tokens);
  settings.model = results::identity_of(*model, hash_progress_line(arguments.quiet));
  validation::check_lengths(settings, prompts, arguments.prompts);
  validation::ResultFolder folder(arguments.out, validation::settings_json(settings), arguments.force);
  const auto where = [&](const results::Prompt& prompt) {
    return fmt::format("{}, line {}", arguments.prompts, prompt.line);
  };
  validation::check_memory(*model, settings, prompts, {where, "--max-tokens"}, capture::available_memory());
  folder.begin();
  if (const auto find = study.find_record()) validation::adopt_records(settings, prompts, find, folder);
  const auto records = measure_prompts(arguments, *model, settings, prompts, folder);
  const auto report = validation::make_report(settings, prompts, records, model->config().keyless_layers());
  validation::write_report(report, *model, prompts, provenance_of_results(), folder);
  say("{}{}\nReport     {}\nNumbers    {}\nFigures    {}\n", validate_table(report), study.summary(),
      folder.file("validation.html").string(), folder.file("validation.json").string(),
      folder.file("validation.h5").string());
}

}  // namespace

void add_validate_options(CLI::App& command, ValidateArguments& arguments) {
  arguments.model.add_model(command)->required();
  command
      .add_option("--prompts", arguments.prompts,
                  "A file with a JSON object a line: {\"prompt\": \"text\"} or {\"ids\": [1, 80]}, either "
                  "with a \"name\"")
      ->required();
  add_out(command, arguments.out, "validation")->required();
  command
      .add_option("--policy", arguments.policies,
                  policy_help() +
                      "; none and keydiff always run (default: sink, tova, snapkv, h2o, l2norm, "
                      "random beside them)")
      ->allow_extra_args(false);
  command
      .add_option("--budget", arguments.budget,
                  "N: rows kept per KV head, such as 64, or a share of each prompt, such as 0.25")
      ->capture_default_str();
  add_block(command, arguments.block);
  command.add_option("--max-tokens", arguments.max_tokens, "Keep only the first N tokens of every prompt")
      ->check(one_or_more());
  arguments.model.add_arithmetic(command);
  add_seed(command, arguments.seed, "policies that draw, and of the bootstrap");
  command.add_flag("--keep-recordings", arguments.keep_recordings,
                   "Also write a recording of every prompt, into OUT/recordings");
  add_discard(command, arguments.force);
  arguments.study.add_to(command);
  add_quiet(command, arguments.quiet);
}

void add_validate(CLI::App& app) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command = app.add_subcommand(
      "validate",
      "Whether what KeyDiff rests on holds for a model: claims, intervals over prompts, verdicts");
  add_validate_options(*command, *arguments);
  command->footer(
      "Example:\n"
      "  keyscope validate --model assets/demo_model --prompts assets/demo_model/prompts/passages.jsonl \\\n"
      "    --max-tokens 256 --out validation");
  command->callback([arguments] { run_validate(*arguments); });
}

}  // namespace keyscope::commands
