#include "app/commands/options.hpp"

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/policies/registry.hpp"
#include "app/commands/console.hpp"
#include "app/figures/catalogue.hpp"
#include "base/inputs.hpp"
#include "capture/model/device_choice.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/python/python_policy.hpp"

namespace keyscope::commands {

namespace {

// What the parser itself says of a number out of its range ends in 309 digits.
CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least) return std::string();
    return fmt::format("expected a whole number of {} or more, found '{}'", least, text);
  };
  return {check, fmt::format("{} or more", least)};
}

}  // namespace

CLI::Validator one_or_more() { return at_least(1); }

CLI::Validator zero_or_more() { return at_least(0); }

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string("expected something, found an empty text") : std::string();
  };
  return {check, ""};
}

CLI::Option* add_budget(CLI::App& command, analysis::Budget& budget) {
  return command.add_option_function<std::string>(
      "--budget", [&budget](const std::string& text) { budget = analysis::parse_budget(text); },
      "N: rows kept per KV head, such as 256, or a share of the prompt's tokens, such as 25% or 0.25");
}

CLI::Option* add_budgets(CLI::App& command, std::vector<analysis::Budget>& budgets,
                         const std::string& by_default) {
  const auto read = [&budgets](const std::vector<std::string>& texts) {
    budgets.clear();
    for (const std::string& text : texts) budgets.push_back(analysis::parse_budget(text));
  };
  return command
      .add_option_function<std::vector<std::string>>(
          "--budget", read,
          fmt::format(
              "N[,N…]: rows kept per KV head, or shares of the prompt's tokens such as 25% (default {})",
              by_default))
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_block(CLI::App& command, std::int64_t& block) {
  command.add_option("--block", block, "B: prompt tokens per block")
      ->check(one_or_more())
      ->capture_default_str();
}

std::vector<analysis::PolicySpec> policies_of(const std::vector<std::string>& texts) {
  std::vector<analysis::PolicySpec> policies;
  for (const std::string& text : texts)
    policies.push_back(capture::is_python_policy(text) ? capture::python_policy(text)
                                                       : analysis::parse_policy(text));
  return policies;
}

void cancel_policies(const std::vector<analysis::PolicySpec>& policies) {
  for (const analysis::PolicySpec& policy : policies)
    if (policy.own != nullptr) policy.own->cancel();
}

void add_cache_scales(CLI::App& command, std::string& scales) {
  command
      .add_option(
          "--cache-scales", scales,
          "What has a scale of its own: channel (int4, int8: of 32 keys, KIVI), token, or head (fp8); "
          "default: channel for int4 and int8, head for fp8")
      ->check(not_empty());
}

void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& of) {
  command.add_option("--seed", seed, "Seed of " + of)->check(zero_or_more())->capture_default_str();
}

CLI::Option* add_out(CLI::App& command, std::string& out, const std::string& run) {
  return command
      .add_option("--out", out, fmt::format("Folder for results; an interrupted {} goes on there", run))
      ->check(not_empty());
}

void add_discard(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Discard results of other settings in --out");
}

void add_quiet(CLI::App& command, bool& quiet) { command.add_flag("--quiet", quiet, "No progress"); }

CLI::Option* ModelChoice::add_model(CLI::App& command) {
  return command.add_option("--model", name_,
                            "A model folder in Hugging Face layout, a .gguf file, or ORG/NAME[@REVISION] in "
                            "the Hugging Face cache");
}

std::string ModelChoice::folder() const {
  if (!given()) return name_;
  const std::filesystem::path folder = capture::find_model(name_);
  note_named_input(folder);  // of a name in the cache; a folder was noted with the command line
  return folder.string();
}

std::shared_ptr<const capture::Model> ModelChoice::load(const capture::ModelOptions& options) const {
  auto model = capture::Model::load(folder(), options);
  for (const std::string& note : model->notes()) say(stderr, "keyscope: note: {}\n", note);
  return model;
}

void ModelChoice::add_arithmetic(CLI::App& command) {
  command.add_option("--dtype", dtype_, "auto, float32, bfloat16 or float16")->capture_default_str();
  command.add_option("--device", device_, "auto, cpu, cuda, or GPUs by number: cuda:0,1")
      ->capture_default_str();
  command
      .add_option("--threads", threads_, "Threads for inference (default: all cores; one for tiny models)")
      ->check(one_or_more());
}

capture::ModelOptions ModelChoice::options() const {
  using capture::DType;
  capture::ModelOptions options;
  options.dtype = choose<DType>("--dtype", dtype_,
                                {{"auto", DType::kAuto},
                                 {"float32", DType::kFloat32},
                                 {"bfloat16", DType::kBFloat16},
                                 {"float16", DType::kFloat16}});
  capture::parse_device(device_);
  options.device = device_;
  options.threads = threads_;
  return options;
}

std::string figure_help() {
  std::vector<std::string> all;
  for (const std::string_view name : figures::figure_names()) {
    std::vector<std::string_view> papers;
    for (const figures::FigureAlias& alias : figures::figure_aliases())
      if (alias.name == name) papers.push_back(alias.paper);
    all.push_back(papers.empty() ? std::string(name) : fmt::format("{} ({})", name, fmt::join(papers, ", ")));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

namespace {

bool is_option(const std::string& part) {
  const auto equals = part.find('=');
  return equals != std::string::npos && part.find(':') > equals;
}

}  // namespace

std::vector<std::string> split_policies(const std::vector<std::string>& words) {
  std::vector<std::string> policies;
  for (const std::string& word : words) {
    bool first = true;  // an option belongs to a policy of its own word
    std::istringstream parts(word);
    for (std::string part; std::getline(parts, part, ','); first = false) {
      if (!first && is_option(part))
        policies.back() += "," + part;
      else
        policies.push_back(part);
    }
  }
  return policies;
}

}  // namespace keyscope::commands
