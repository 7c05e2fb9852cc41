#include "app/adoption/adoption_json.hpp"

#include <cmath>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace keyscope::adoption {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json mean_json(const analysis::BootstrapMean& mean) {
  return {{"mean", number(mean.mean)},
          {"low", number(mean.low)},
          {"high", number(mean.high)},
          {"n", mean.n_samples}};
}

Json spread_json(const benchmarks::Spread& spread) {
  return {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}};
}

Json memory_json(const CacheMemory& memory) {
  return {{"occupancy", memory.occupancy},
          {"mean_bytes", memory.mean_bytes},
          {"p95_bytes", memory.p95_bytes},
          {"p95_peak_bytes", memory.p95_peak_bytes}};
}

Json retained_json(const Retained& retained, bool evicts) {
  Json json{{"mean_pairwise_cosine", mean_json(retained.mean_pairwise_cosine)},
            {"log_volume_nats", mean_json(retained.log_volume_nats)}};
  if (!evicts) return json;
  json["attention_mass_kept"] = mean_json(retained.attention_mass_kept);
  json["kl_nats"] = mean_json(retained.kl_nats);
  json["mean_pairwise_cosine_change"] = mean_json(retained.cosine_change);
  return json;
}

std::string_view kind_name(TaskKind kind) {
  return kind == TaskKind::kScore ? "score" : "negative log-likelihood";
}

Json tasks_json(const Adoption& adoption) {
  Json json = Json::array();
  for (const TaskOutcome& task : adoption.tasks)
    json.push_back({{"task", task.name},
                    {"metric", task.metric},
                    {"kind", kind_name(task.kind)},
                    {"n", task.n_examples},
                    {"data_sets", task.n_data_sets},
                    {"prompt_tokens", task.n_tokens},
                    {"full", mean_json(task.full)},
                    {"bad_rows", task.bad_rows.size()},
                    {"skipped_rows", task.bad_rows}});
  return json;
}

// loss and score are of all examples; what is judged is affected_loss.
Json outcome_json(const Adoption& adoption, std::size_t task, std::size_t candidate) {
  const TaskLoss& loss = adoption.candidates[candidate].losses[task];
  const std::string doubt = doubt_text(loss, adoption.rule.tolerance);
  return {{"task", adoption.tasks[task].name},
          {"score", mean_json(adoption.tasks[task].scores[candidate])},
          {"loss", mean_json(loss.overall)},
          {"after_eviction", loss.after_eviction},
          {"affected", loss.n_affected},
          {"scored", loss.n_scored},
          {"affected_loss", mean_json(loss.loss)},
          {"affected_full", loss.kind == TaskKind::kScore ? mean_json(loss.full) : Json()},
          {"verdict", fitness_name(judge_loss(loss, adoption.rule.tolerance))},
          {"reason", doubt.empty() ? Json() : Json(doubt)}};
}

Json candidate_json(const Adoption& adoption, std::size_t index) {
  const Candidate& candidate = adoption.candidates[index];
  Json json{{"policy", candidate.policy},
            {"budget_text", candidate.budget},
            {"verdict", fitness_name(adoption.recommendation.fitness[index])},
            {"memory_share", candidate.memory_share},
            {"p95_memory_share", candidate.p95_memory_share},
            {"memory", memory_json(adoption.memory[index])}};
  json["first_token_ms"] = adoption.latency_repeat > 0 ? spread_json(adoption.first_token_ms[index]) : Json();
  json["tasks"] = Json::array();
  for (std::size_t t = 0; t < adoption.tasks.size(); ++t)
    json["tasks"].push_back(outcome_json(adoption, t, index));
  json["retained"] = adoption.n_diagnosed > 0 ? retained_json(adoption.retained[index], true) : Json();
  return json;
}

Json full_json(const Adoption& adoption) {
  Json json{{"memory", memory_json(adoption.full_memory)}};
  json["first_token_ms"] = adoption.latency_repeat > 0 ? spread_json(adoption.full_first_token_ms) : Json();
  json["retained"] = adoption.n_diagnosed > 0 ? retained_json(adoption.full_retained, false) : Json();
  return json;
}

Json diagnosis_json(const Adoption& adoption) {
  if (adoption.n_diagnosed == 0) return {};
  return {{"n_prompts", adoption.n_diagnosed},
          {"n_tokens", adoption.n_diagnosed_tokens},
          {"attention_top_share", mean_json(adoption.concentration.top_share)},
          {"attention_gini", mean_json(adoption.concentration.gini)},
          {"attention_entropy_nats", mean_json(adoption.concentration.entropy_nats)},
          {"sink_metric", mean_json(adoption.concentration.sink_metric)},
          {"top_share_without_first", number(share_without_first(adoption.concentration))},
          {"spearman", mean_json(adoption.geometry.spearman)},
          {"key_query_mean_cosine", mean_json(adoption.geometry.key_query_mean_cosine)},
          {"focus", focus_text(adoption.concentration)},
          {"premise", premise_text(adoption.geometry)},
          {"redundancy", redundancy_text(adoption)}};
}

}  // namespace

Json adoption_json(const Adoption& adoption) {
  const Recommendation& found = adoption.recommendation;
  Json json{{"format", 1},
            {"model",
             {{"name", adoption.model.name},
              {"sha256", adoption.model.sha256},
              {"weights_sha256", adoption.model.weights_sha256}}},
            {"dtype", adoption.model.dtype},
            {"device", adoption.model.device},
            {"block", adoption.block_size},
            {"seed", adoption.seed},
            {"resamples", adoption.bootstrap.n_resamples},
            {"confidence", adoption.rule.confidence},
            {"tolerance", adoption.rule.tolerance}};
  json["recommendation"] = {{"text", recommendation_text(found, adoption.candidates, adoption.rule)},
                            {"rule", rule_text(adoption.rule)},
                            {"policy", nullptr},
                            {"budget_text", nullptr}};
  if (found.chosen >= 0) {
    const Candidate& chosen = adoption.candidates[static_cast<std::size_t>(found.chosen)];
    json["recommendation"]["policy"] = chosen.policy;
    json["recommendation"]["budget_text"] = chosen.budget;
  }
  json["prompts"] = {{"n", adoption.prompt_lengths.size()}, {"p95_tokens", adoption.full_memory.p95_length}};
  json["tasks"] = tasks_json(adoption);
  json["full_cache"] = full_json(adoption);
  json["candidates"] = Json::array();
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i)
    json["candidates"].push_back(candidate_json(adoption, i));
  json["diagnosis"] = diagnosis_json(adoption);
  return json;
}

}  // namespace keyscope::adoption
