#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/policies/policy.hpp"
#include "app/commands/cli_fwd.hpp"
#include "base/errors.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// Checks for options that count something: "expected 1 or more, found 0".
CLI::Validator one_or_more();
CLI::Validator zero_or_more();

// An empty text, from a shell variable that is not set, say, is not taken for "all".
CLI::Validator not_empty();

// What one of the words that an option takes stands for.
//   throws UsageError naming the option and the words
template <typename Value>
Value choose(const std::string& option, const std::string& word, const std::map<std::string, Value>& words) {
  const auto found = words.find(word);
  if (found != words.end()) return found->second;
  std::vector<std::string> known;
  known.reserve(words.size());
  for (const auto& [name, value] : words) known.push_back(name);
  throw UsageError(fmt::format("{}: '{}' is not one of {}", option, word, fmt::join(known, ", ")));
}

// Options that commands which run a model have in common, each the same wherever it stands.

// `--budget`: N, rows or a share of the prompt; `add_budgets`: several, with commas between them.
CLI::Option* add_budget(CLI::App& command, analysis::Budget& budget);
CLI::Option* add_budgets(CLI::App& command, std::vector<analysis::Budget>& budgets,
                         const std::string& by_default);

// What a --policy of `capture` or `replay` names: one that is known, or python:FILE.py:FUNCTION.
//   throws UsageError as parse_policy and python_policy do
std::vector<analysis::PolicySpec> policies_of(const std::vector<std::string>& texts);
// Ends what policies of their user's own are doing.
void cancel_policies(const std::vector<analysis::PolicySpec>& policies);

// `--block`: B, 1 or more.
void add_block(CLI::App& command, std::int64_t& block);

// `--cache-scales`, by which a quantised cache rounds.
void add_cache_scales(CLI::App& command, std::string& scales);

// `--seed`, 0 or more.
//   of: what is drawn, the end of "Seed of …"
void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& of);

// `--out`, a folder in which an interrupted run goes on.
//   run: what the command calls it: "evaluation"
CLI::Option* add_out(CLI::App& command, std::string& out, const std::string& run);

// `--force`, where it throws away results of other settings and nothing else.
void add_discard(CLI::App& command, bool& force);

void add_quiet(CLI::App& command, bool& quiet);

// Which model computes, and in what: `--model`, `--dtype`, `--device`, `--threads`. In two parts, between
// which a command's own options stand.
class ModelChoice {
 public:
  CLI::Option* add_model(CLI::App& command);  // `--model`; not required unless the command says so
  void add_arithmetic(CLI::App& command);     // the others

  bool given() const { return !name_.empty(); }
  const std::string& name() const { return name_; }  // as it was given
  // Where the model is.
  //   throws FileError as capture::find_model does
  std::string folder() const;
  // The model itself. What its user should know of it goes to stderr.
  //   throws as Model::load does
  std::shared_ptr<const capture::Model> load(const capture::ModelOptions& options) const;
  //   throws UsageError on a word that `--dtype` or `--device` does not take
  capture::ModelOptions options() const;

 private:
  std::string name_, dtype_ = "auto", device_ = "auto";
  int threads_ = 0;
};

// Every figure of a recording with the paper's names for it: "log-volume (fig12), redundancy, …".
std::string figure_help();

// Policies that are given in one word, such as "keydiff:recent=0.1,metric=dot,sink", one by one: a part that
// is KEY=VALUE belongs to the policy before it.
std::vector<std::string> split_policies(const std::vector<std::string>& words);

}  // namespace keyscope::commands
