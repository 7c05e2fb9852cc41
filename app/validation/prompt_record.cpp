#include "app/validation/prompt_record.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/validation/quantity.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::validation {
namespace {

using Json = nlohmann::ordered_json;
using measures::HeadMeasures;
using measures::RunMeasures;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> read_number(const nlohmann::json& from, std::string_view field) {
  const auto& value = from.at(std::string(field));
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

Json tally_json(const BoundTally& tally) {
  return {{"pairs", tally.pairs}, {"violations", tally.violations}, {"min_slack", number(tally.min_slack)}};
}

BoundTally read_tally(const nlohmann::json& from) {
  return {from.at("pairs").get<std::int64_t>(), from.at("violations").get<std::int64_t>(),
          read_number(from, "min_slack")};
}

constexpr std::pair<const char*, BoundTally HeadBounds::*> kTallies[]{
    {"theorem", &HeadBounds::theorem},
    {"lemma_stated", &HeadBounds::lemma_stated},
    {"lemma_proof", &HeadBounds::lemma_proof},
    {"lemma_always", &HeadBounds::lemma_always}};

constexpr std::pair<const char*, std::optional<double> HeadBounds::*> kShares[]{
    {"theorem_share", &HeadBounds::theorem_share},
    {"theorem_share_causal", &HeadBounds::theorem_share_causal},
    {"lemma_share", &HeadBounds::lemma_share}};

Json run_json(const RunMeasures& run) {
  Json json{{"run", run.run}};
  for (const Quantity& one : quantities())
    if (one.of_run != nullptr) json[std::string(one.id)] = number(run.*one.of_run);
  json["heads"] = Json::array();
  for (const HeadMeasures& head : run.heads) {
    Json entry{{"layer", head.layer}, {"kv_head", head.kv_head}};
    for (const Quantity& one : quantities())
      if (one.of_head != nullptr) entry[std::string(one.id)] = number(head.*one.of_head);
    json["heads"].push_back(std::move(entry));
  }
  return json;
}

RunMeasures read_run(const nlohmann::json& from) {
  RunMeasures run;
  run.run = from.at("run").get<std::string>();
  for (const Quantity& one : quantities())
    if (one.of_run != nullptr) run.*one.of_run = read_number(from, one.id);
  for (const auto& entry : from.at("heads")) {
    HeadMeasures& head = run.heads.emplace_back();
    head.layer = entry.at("layer").get<int>();
    head.kv_head = entry.at("kv_head").get<int>();
    for (const Quantity& one : quantities())
      if (one.of_head != nullptr) head.*one.of_head = read_number(entry, one.id);
  }
  return run;
}

Json bounds_json(const HeadBounds& bounds) {
  Json json{{"layer", bounds.layer}, {"kv_head", bounds.kv_head}};
  for (const auto& [name, tally] : kTallies) json[name] = tally_json(bounds.*tally);
  for (const auto& [name, share] : kShares) json[name] = number(bounds.*share);
  return json;
}

HeadBounds read_bounds(const nlohmann::json& from) {
  HeadBounds bounds;
  bounds.layer = from.at("layer").get<int>();
  bounds.kv_head = from.at("kv_head").get<int>();
  for (const auto& [name, tally] : kTallies) bounds.*tally = read_tally(from.at(name));
  for (const auto& [name, share] : kShares) bounds.*share = read_number(from, name);
  return bounds;
}

}  // namespace

const RunMeasures* PromptRecord::run(std::string_view name) const {
  const auto found = std::ranges::find(runs, name, &RunMeasures::run);
  return found == runs.end() ? nullptr : &*found;
}

Json prompt_record_json(const PromptRecord& record) {
  Json json{{"key", record.key}, {"n_tokens", record.n_tokens}, {"budget", record.budget}};
  json["runs"] = Json::array();
  for (const RunMeasures& run : record.runs) json["runs"].push_back(run_json(run));
  json["bounds"] = Json::array();
  for (const HeadBounds& bounds : record.bounds) json["bounds"].push_back(bounds_json(bounds));
  return json;
}

PromptRecord parse_prompt_record(std::string_view text, const std::string& where) {
  const nlohmann::json json = capture::parse_json_object(text, where);
  try {
    PromptRecord record;
    record.key = json.at("key").get<std::string>();
    record.n_tokens = json.at("n_tokens").get<std::int64_t>();
    record.budget = json.at("budget").get<std::int64_t>();
    for (const auto& run : json.at("runs")) record.runs.push_back(read_run(run));
    for (const auto& bounds : json.at("bounds")) record.bounds.push_back(read_bounds(bounds));
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw FileError(fmt::format("{}: damaged: {}; remove it, and it is measured again", where, error.what()));
  }
}

}  // namespace keyscope::validation
