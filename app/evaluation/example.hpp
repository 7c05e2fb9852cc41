#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "analysis/policies/policy.hpp"
#include "app/evaluation/anatomy.hpp"
#include "app/evaluation/evidence.hpp"
#include "app/results/run_identity.hpp"
#include "capture/inference/completion.hpp"

namespace keyscope::evaluation {

// A policy as it was asked for: its text names its row in every table.
struct AskedPolicy {
  std::string text;  // "keydiff:recent=0.1"
  analysis::PolicySpec spec;
};

// A budget as it was asked for.
struct AskedBudget {
  std::string text;  // "64", "25%"
  analysis::Budget budget;
};

// All that the numbers of an evaluation depend on, but for the examples.
struct Settings {
  std::string task;  // "niah"
  results::ModelIdentity model;
  std::vector<AskedPolicy> policies;        // `none` is not among them: it always runs
  std::vector<AskedBudget> budgets;         // at least one, unless there is no policy
  std::vector<std::int64_t> blocks;         // at least one
  analysis::CacheFormat cache_format = {};  // of every run's cache, the full one's included
  std::uint64_t seed = 0;  // of policies that draw, of what is drawn for examples, of the bootstrap
  nlohmann::ordered_json task_settings = nlohmann::ordered_json::object();  // what the task adds
};

// One column of the grid: how every example is run.
struct GridPoint {
  std::string policy;  // as asked for
  analysis::PolicySpec spec;
  std::string budget_text;  // as asked for; empty for `none`
  analysis::Budget budget;  // without meaning for `none`
  std::int64_t block = 0;

  bool evicts() const { return spec.name != "none"; }
  // N for a prompt of so many tokens; 0 for `none`.
  std::int64_t rows_for(std::int64_t n_prompt) const { return evicts() ? budget.rows_for(n_prompt) : 0; }
  bool operator==(const GridPoint& other) const;  // by policy, budget_text and block
};

// Policies and budgets in the order of the command line.
//   throws UsageError on a policy, budget or block that cannot be, or that is given twice, and on policies
//   without a budget
std::vector<AskedPolicy> parse_policies(const std::vector<std::string>& texts);
std::vector<AskedBudget> parse_budgets(const std::vector<std::string>& texts);
void check_grid(const Settings& settings);

// The grid of a command line, checked; without a task and a model.
//   throws UsageError as the three above
Settings asked_grid(const std::vector<std::string>& policies, const std::vector<std::string>& budgets,
                    const std::vector<std::int64_t>& blocks, std::uint64_t seed);

// Policy × budget × block, and `none` once per block before the others, as what they are compared with.
std::vector<GridPoint> grid_of(const Settings& settings);

// Every setting with its value; options of policies in full.
nlohmann::ordered_json settings_json(const Settings& settings);

// One question of a task, as every policy gets it.
struct Example {
  std::string id;  // not empty, one of its kind in the evaluation
  // Examples of one group are run together, since their prompts begin alike; they follow one another.
  std::string group;
  std::vector<std::int32_t> prompt_ids;
  std::vector<std::string> answers;  // that are expected; any of them is right
  capture::Continuation continuation;
  std::optional<std::int64_t> score_from = {};  // as in capture::CompletionRequest
  Evidence evidence = {};                       // of its prompt
  // What is said of it beside its results, such as {"length": 512, "depth": 50}: also what its score depends
  // on beside the answers.
  nlohmann::ordered_json about = nlohmann::ordered_json::object();
};

// Scores by name, in the order in which they are reported: {"recall", 0.5}, {"exact", 0}.
using Scores = std::vector<std::pair<std::string, double>>;

// What a completion is worth. Called on the inference thread.
using Scorer = std::function<Scores(const Example& example, const capture::Completion& completion)>;

// What the results of these examples depend on: SHA-256 of ids, prompts, answers, continuations and what is
// said of them, and where their evidence stands, in hex.
std::string examples_sha256(std::span<const Example> examples);

// The result of one example under one grid point, so that its scores can be checked by hand.
struct ExampleResult {
  std::string id;
  std::string policy, budget_text;  // of the grid point
  std::int64_t budget = 0;          // N; 0 for `none`
  std::int64_t block = 0;
  std::int64_t n_prompt = 0;     // tokens
  double rows_kept = 0;          // as in capture::Completion
  std::int64_t n_generated = 0;  // tokens, with the one that ended the text
  std::string text;              // generated; bytes that are no UTF-8 are U+FFFD
  std::vector<std::string> answers;
  Scores scores;
  Anatomy anatomy = {};

  //   throws InvalidInput where there is no score of that name
  double score(std::string_view name) const;
  bool operator==(const ExampleResult&) const = default;
};

// One of its kind among an evaluation's results.
std::string result_key(const std::string& id, const std::string& policy, const std::string& budget_text,
                       std::int64_t block);

// A line of examples.jsonl, without its end; `about` stands beside the other fields. Numbers are written so
// that they read back to the last bit.
std::string result_line(const ExampleResult& result, const nlohmann::ordered_json& about);

//   where: file and line, for messages
//   throws FileError where a field is missing or of another kind
ExampleResult parse_result(std::string_view line, const std::string& where);

}  // namespace keyscope::evaluation
