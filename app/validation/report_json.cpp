#include "app/validation/report_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

namespace keyscope::validation {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Puts a mean into an object that says what it is the mean of.
void put_mean(Json& json, const analysis::BootstrapMean& mean) {
  json["mean"] = number(mean.mean);
  json["low"] = number(mean.low);
  json["high"] = number(mean.high);
  json["n_prompts"] = mean.n_samples;
}

Json finding_json(const Finding& finding) {
  Json json{{"label", finding.label}};
  put_mean(json, finding.mean);
  if (finding.tally) {
    json["pairs"] = finding.tally->pairs;
    json["violations"] = finding.tally->violations;
    json["min_slack"] = finding.tally->min_slack ? Json(*finding.tally->min_slack) : Json();
  }
  json["verdict"] = verdict_name(finding.verdict);
  return json;
}

Json findings_json(const std::vector<Finding>& findings) {
  Json json = Json::array();
  for (const Finding& finding : findings) json.push_back(finding_json(finding));
  return json;
}

Json claim_json(const Claim& claim) {
  Json json{{"id", claim.id}, {"question", claim.question}, {"source", claim.source}};
  json["quantity"] = claim.quantity;
  json["units"] = claim.units;
  json["rule"] = claim.rule;
  json["verdict"] = verdict_name(claim.verdict);
  json["remark"] = claim.remark;
  if (claim.heads > 0) {
    json["heads"] = claim.heads;
    json["heads_agreeing"] = claim.heads_agreeing;
  }
  json["findings"] = findings_json(claim.findings);
  json["by_layer"] = findings_json(claim.by_layer);
  return json;
}

Json prompts_json(const Report& report) {
  Json json = Json::array();
  for (const ReportedPrompt& prompt : report.prompts)
    json.push_back({{"name", prompt.name},
                    {"key", prompt.key},
                    {"n_tokens", prompt.n_tokens},
                    {"budget", prompt.budget}});
  return json;
}

Json summary_json(const Report& report) {
  Json json = Json::array();
  for (const SummaryRow& row : report.summary) {
    Json entry{{"quantity", row.quantity->id}, {"run", row.run}};
    entry["layer"] = row.layer < 0 ? Json() : Json(row.layer);
    put_mean(entry, row.mean);
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace

std::string report_json(const Report& report) {
  Json json{{"format", 1}, {"settings", settings_json(report.settings)}};
  json["bootstrap"] = {{"resamples", report.bootstrap.n_resamples},
                       {"confidence", report.bootstrap.confidence},
                       {"seed", report.bootstrap.seed}};
  json["layers"] = report.layers;
  json["n_kv_heads"] = report.n_kv_heads;
  json["n_tokens"] = report.n_tokens;
  json["prompts"] = prompts_json(report);
  json["claims"] = Json::array();
  for (const Claim& claim : report.claims) json["claims"].push_back(claim_json(claim));
  json["summary"] = summary_json(report);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace keyscope::validation
