#include "app/evaluation/example.hpp"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/evaluation/task_data.hpp"
#include "app/results/run_identity.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"

namespace keyscope::evaluation {

namespace {

using Json = nlohmann::ordered_json;

// Of what is scored and how it is stored; results of another format are not mixed with these.
constexpr int kFormat = 3;

}  // namespace

bool GridPoint::operator==(const GridPoint& other) const {
  return policy == other.policy && budget_text == other.budget_text && block == other.block;
}

std::vector<AskedPolicy> parse_policies(const std::vector<std::string>& texts) {
  std::vector<AskedPolicy> policies;
  for (const std::string& text : texts)
    if (analysis::PolicySpec spec = analysis::parse_policy(text); spec.name != "none")
      policies.push_back({text, std::move(spec)});
  return policies;
}

std::vector<AskedBudget> parse_budgets(const std::vector<std::string>& texts) {
  std::vector<AskedBudget> budgets;
  budgets.reserve(texts.size());
  for (const std::string& text : texts) budgets.push_back({text, analysis::parse_budget(text)});
  return budgets;
}

void check_grid(const Settings& settings) {
  if (!settings.policies.empty() && settings.budgets.empty())
    throw UsageError("--budget: expected at least one, since policies that evict were asked for");
  if (settings.blocks.empty()) throw UsageError("--block: expected at least one");
  for (const std::int64_t block : settings.blocks)
    if (block < 1) throw UsageError(fmt::format("--block: found {}; expected 1 or more", block));
  check_given_once(settings.policies, "--policy", [](const AskedPolicy& policy) { return policy.text; });
  check_given_once(settings.budgets, "--budget", [](const AskedBudget& budget) { return budget.text; });
  check_given_once(settings.blocks, "--block", [](std::int64_t block) { return block; });
}

Settings asked_grid(const std::vector<std::string>& policies, const std::vector<std::string>& budgets,
                    const std::vector<std::int64_t>& blocks, std::uint64_t seed) {
  Settings settings;
  settings.policies = parse_policies(policies);
  settings.budgets = parse_budgets(budgets);
  settings.blocks = blocks;
  settings.seed = seed;
  check_grid(settings);
  return settings;
}

std::vector<GridPoint> grid_of(const Settings& settings) {
  std::vector<GridPoint> grid;
  for (const std::int64_t block : settings.blocks) {
    grid.push_back({"none", analysis::parse_policy("none"), "", {}, block});
    for (const AskedPolicy& policy : settings.policies)
      for (const AskedBudget& budget : settings.budgets)
        grid.push_back({policy.text, policy.spec, budget.text, budget.budget, block});
  }
  return grid;
}

Json settings_json(const Settings& settings) {
  Json json{{"format", kFormat}};
  json["task"] = settings.task;
  results::add_identity(json, settings.model);
  json["policies"] = Json::array();
  for (const AskedPolicy& policy : settings.policies) {
    Json& asked = json["policies"].emplace_back(Json{{"policy", policy.text}});
    asked.update(results::policy_json(policy.spec, settings.seed));
  }
  json["budgets"] = Json::array();
  for (const AskedBudget& budget : settings.budgets) json["budgets"].push_back(budget.text);
  json["blocks"] = settings.blocks;
  if (const analysis::CacheFormat& format = settings.cache_format; format.quantises()) {
    json["cache_dtype"] = analysis::cache_dtype_name(format.dtype);
    json["cache_scales"] = analysis::cache_scales_name(format.scales);
  }
  json["seed"] = settings.seed;
  for (const auto& [name, value] : settings.task_settings.items()) json[name] = value;
  return json;
}

std::string examples_sha256(std::span<const Example> examples) {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.add(fmt::format("{}:{};", text.size(), text)); };
  for (const Example& example : examples) {
    add(example.id);
    add(json_text(example.about));
    for (const std::int32_t id : example.prompt_ids) hash.add(fmt::format("{} ", id));
    for (const std::string& answer : example.answers) add("=" + answer);
    const capture::Continuation& continuation = example.continuation;
    for (const std::string& stop : continuation.stop_texts) add("/" + stop);
    for (const std::int32_t id : continuation.end_ids) hash.add(fmt::format("!{} ", id));
    add(fmt::format("{} {} {} {} {} {} {} {}", continuation.max_new_tokens, continuation.ignore_eos,
                    continuation.never_empty, continuation.stop_after_words,
                    continuation.sampling.temperature, continuation.sampling.top_p,
                    continuation.sampling.seed, example.score_from.value_or(0)));
    for (const std::int32_t position : example.evidence.positions()) hash.add(fmt::format("@{} ", position));
    for (const TokenRange& range : example.evidence.answers)
      hash.add(fmt::format("&{} {} ", range.first, range.end));
  }
  return hash.hex();
}

namespace {

template <typename T>
T field(const nlohmann::json& row, const char* name, const char* expected, const std::string& where) {
  if (!row.contains(name))
    throw FileError(fmt::format("{}: \"{}\" is missing; expected {}", where, name, expected));
  const nlohmann::json& value = row[name];
  try {
    if constexpr (!std::is_same_v<T, std::int64_t>)
      return value.get<T>();
    else if (const auto integer = json_integer<T>(value))
      return *integer;
  } catch (const nlohmann::json::exception&) {  // as below
  }
  throw FileError(fmt::format("{}: \"{}\" is {}; expected {}", where, name, shown_value(value), expected));
}

// In the order of the file, which a sorted object has not.
Scores parse_scores(std::string_view line, const std::string& where) {
  Scores scores;
  const Json row = parse_ordered_json_object(line, where);
  for (const auto& [name, value] : row["scores"].items()) scores.emplace_back(name, value.get<double>());
  return scores;
}

}  // namespace

double ExampleResult::score(std::string_view name) const {
  const auto found = std::ranges::find_if(scores, [&](const auto& score) { return score.first == name; });
  if (found == scores.end())
    throw InvalidInput(fmt::format("example {}: there is no score \"{}\"", id, name));
  return found->second;
}

std::string result_key(const std::string& id, const std::string& policy, const std::string& budget_text,
                       std::int64_t block) {
  return fmt::format("{}\n{}\n{}\n{}", id, policy, budget_text, block);
}

std::string result_line(const ExampleResult& result, const Json& about) {
  Json json{{"id", result.id}};
  for (const auto& [name, value] : about.items()) json[name] = value;
  json["policy"] = result.policy;
  json["budget_text"] = result.budget_text;
  json["budget"] = result.budget;
  json["block"] = result.block;
  json["n_prompt"] = result.n_prompt;
  json["rows_kept"] = result.rows_kept;
  json["n_generated"] = result.n_generated;
  json["text"] = result.text;
  json["answers"] = result.answers;
  json["scores"] = Json::object();
  for (const auto& [name, value] : result.scores) json["scores"][name] = value;
  json["anatomy"] = anatomy_json(result.anatomy);
  return json_text(json);
}

ExampleResult parse_result(std::string_view line, const std::string& where) {
  const nlohmann::json row = parse_json_object(line, where);
  ExampleResult result;
  result.id = field<std::string>(row, "id", "a text", where);
  result.policy = field<std::string>(row, "policy", "a text", where);
  result.budget_text = field<std::string>(row, "budget_text", "a text", where);
  result.budget = field<std::int64_t>(row, "budget", "a count of rows", where);
  result.block = field<std::int64_t>(row, "block", "a count of tokens", where);
  result.n_prompt = field<std::int64_t>(row, "n_prompt", "a count of tokens", where);
  result.rows_kept = field<double>(row, "rows_kept", "a count of rows", where);
  result.n_generated = field<std::int64_t>(row, "n_generated", "a count of tokens", where);
  result.text = field<std::string>(row, "text", "a text", where);
  result.answers = field<std::vector<std::string>>(row, "answers", "an array of texts", where);
  field<std::map<std::string, double>>(row, "scores", "an object of numbers", where);
  result.scores = parse_scores(line, where);
  result.anatomy = parse_anatomy(field<nlohmann::json>(row, "anatomy", "an object", where), where);
  return result;
}

}  // namespace keyscope::evaluation
