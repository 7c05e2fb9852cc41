#include "app/evaluation/example_result.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
T field(const nlohmann::json& row, const char* name, const char* expected, const std::string& where) {
  if (!row.contains(name))
    throw FileError(fmt::format("{}: \"{}\" is missing; expected {}", where, name, expected));
  try {
    return row[name].get<T>();
  } catch (const nlohmann::json::exception&) {
    throw FileError(fmt::format("{}: \"{}\" is {}; expected {}", where, name,
                                capture::shown(row[name].dump()), expected));
  }
}

// In the order of the file, which a sorted object has not.
Scores parse_scores(std::string_view line) {
  Scores scores;
  const Json row = Json::parse(line);
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
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ExampleResult parse_result(std::string_view line, const std::string& where) {
  const nlohmann::json row = capture::parse_json_object(line, where);
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
  result.scores = parse_scores(line);
  return result;
}

}  // namespace keyscope::evaluation
