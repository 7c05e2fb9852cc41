#include "app/validation/validation_report.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/labels.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/spread.hpp"
#include "app/results/html_page.hpp"
#include "app/results/prompts.hpp"
#include "base/interval_text.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::validation {

using results::PagePicture;

Report make_report(const Settings& settings, std::span<const results::Prompt> prompts, Records records,
                   std::vector<int> keyless_layers) {
  Report report;
  report.keyless_layers = std::move(keyless_layers);
  report.settings = settings;
  report.bootstrap.seed = settings.seed;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const PromptRecord& record = records[i];
    report.prompts.push_back(
        {prompts[i].name, prompts[i].beginning, record.key, record.n_tokens, record.budget});
    report.n_tokens += record.n_tokens;
  }
  for (const auto& run : records.front().runs) report.runs.push_back(run.run);
  report.layers = layers_of(records);
  for (const BoundTallies& head : records.front().bounds)
    report.n_kv_heads = std::max<std::int64_t>(report.n_kv_heads, head.kv_head + 1);
  report.n_heads = std::ssize(records.front().bounds);
  report.claims = examine_claims(records, report.bootstrap);
  report.theorems = examine_theorems(records, report.bootstrap);
  report.summary = summarise(records, report.bootstrap);
  return report;
}

std::string describe_extent(const Report& report) {
  const auto [shortest, longest] =
      std::ranges::minmax(report.prompts, {}, [](const ReportedPrompt& prompt) { return prompt.n_tokens; });
  const std::string lengths = shortest.n_tokens == longest.n_tokens
                                  ? counted(longest.n_tokens, "token")
                                  : fmt::format("{} to {} tokens", shortest.n_tokens, longest.n_tokens);
  const std::string keyless =
      report.keyless_layers.empty()
          ? ""
          : fmt::format(", {} without keys", counted(std::ssize(report.keyless_layers), "layer"));
  return fmt::format("{} of {}, {} × {}{}", counted(std::ssize(report.prompts), "prompt"), lengths,
                     counted(std::ssize(report.layers), "layer"),
                     report.n_heads == report.n_kv_heads * std::ssize(report.layers)
                         ? counted(report.n_kv_heads, "KV head")
                         : fmt::format("up to {} KV heads", report.n_kv_heads),
                     keyless);
}

std::string describe_sinks(const Report& report) {
  const SummaryRow* row = find_row(report.summary, "learned_sink_share", "none");
  if (row == nullptr) return "";
  return fmt::format("learned sinks take {} % of the full cache's attention",
                     mean_text(100 * row->mean.mean, 100 * row->mean.low, 100 * row->mean.high, 1));
}

std::string describe_model(const Report& report) {
  const results::ModelIdentity& model = report.settings.model;
  return fmt::format("{}, weights {}, {} on {}", model.name, model.weights_sha256.substr(0, 12), model.dtype,
                     model.device);
}

namespace {

// "keys unlike the mean key receive more attention (ρ 0.298 [0.278, 0.317], weak)".
std::string premise_text(const Report& report) {
  const Claim& claim = report.claims.front();
  const analysis::BootstrapMean& mean = claim.findings.front().mean;
  const std::string measured = fmt::format("ρ {}{}{}", mean_text(mean.mean, mean.low, mean.high),
                                           claim.strength.empty() ? "" : ", ", claim.strength);
  switch (claim.verdict) {
    case Verdict::kSupported:
      return fmt::format("keys unlike the mean key receive more attention ({})", measured);
    case Verdict::kNotSupported:
      return fmt::format("keys unlike the mean key do not receive more attention ({})", measured);
    case Verdict::kCannotTell:
      break;
  }
  return fmt::format("{} cannot tell whether keys unlike the mean key receive more attention ({})",
                     counted(std::ssize(report.prompts), "prompt"), measured);
}

// "3 are supported".
std::string number_are(const Report& report, Verdict verdict, std::string_view what) {
  const auto n = std::ranges::count(report.claims, verdict, &Claim::verdict);
  return n == 1 ? fmt::format("1 is{}", what) : fmt::format("{} are{}", n, what);
}

}  // namespace

std::string headline(const Report& report) {
  std::string bugs, failures;
  for (const Claim& theorem : report.theorems) {
    if (theorem.verdict != Verdict::kNotSupported) continue;
    (theorem.is_bug ? bugs : failures) += fmt::format("{} {}; ", theorem.source, theorem.failure);
  }
  const auto n_untold = std::ranges::count(report.claims, Verdict::kCannotTell, &Claim::verdict);
  const std::string untold = n_untold == 0 ? "" : fmt::format(", and {} cannot be told", n_untold);
  return fmt::format("{}In {}, {}; of {} claims {} and {}{}{}", bugs, report.settings.model.name,
                     premise_text(report), report.claims.size(),
                     number_are(report, Verdict::kSupported, " supported"),
                     number_are(report, Verdict::kNotSupported, " not"), untold,
                     failures.empty() ? "" : "; " + failures.substr(0, failures.size() - 2));
}

std::string describe_eviction(const Report& report) {
  const analysis::Budget& budget = report.settings.budget;
  const std::string rows =
      budget.rows > 0 ? counted(budget.rows, "row") : fmt::format("{:g} of the prompt", budget.share);
  return fmt::format("N = {}, B = {}", rows, report.settings.block_size);
}

namespace {

using Json = nlohmann::ordered_json;

// Puts a mean into an object that says what it is the mean of.
void put_mean(Json& json, const analysis::BootstrapMean& mean) {
  json["mean"] = json_number(mean.mean);
  json["low"] = json_number(mean.low);
  json["high"] = json_number(mean.high);
  json["n_prompts"] = mean.n_samples;
}

Json finding_json(const Finding& finding) {
  Json json{{"label", finding.label}};
  put_mean(json, finding.mean);
  if (finding.tally) {
    json["pairs"] = finding.tally->pairs;
    json["violations"] = finding.tally->violations;
    json["min_slack"] = json_number(finding.tally->min_slack);
  }
  json["verdict"] = verdict_name(finding.verdict);
  json["strength"] = finding.strength.empty() ? Json() : Json(finding.strength);
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
  json["kind"] = kind_name(claim.kind);
  json["rule"] = claim.rule;
  json["verdict"] = verdict_name(claim.verdict);
  json["verdict_text"] = verdict_text(claim);
  json["strength"] = claim.strength.empty() ? Json() : Json(claim.strength);
  json["remark"] = claim.remark;
  if (claim.heads > 0) {
    json["heads"] = claim.heads;
    json["heads_agreeing"] = claim.heads_agreeing;
  }
  json["findings"] = findings_json(claim.findings);
  json["by_layer"] = findings_json(claim.by_layer);
  if (claim.without_sinks)
    json["without_sinks"] = {{"verdict", verdict_name(claim.without_sinks->verdict)},
                             {"verdict_text", verdict_text(*claim.without_sinks)},
                             {"findings", findings_json(claim.without_sinks->findings)}};
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
  Json json{{"format", 1}, {"headline", headline(report)}, {"settings", settings_json(report.settings)}};
  json["bootstrap"] = {{"resamples", report.bootstrap.n_resamples},
                       {"confidence", report.bootstrap.confidence},
                       {"seed", report.bootstrap.seed}};
  json["layers"] = report.layers;
  if (!report.keyless_layers.empty()) json["keyless_layers"] = report.keyless_layers;
  json["n_kv_heads"] = report.n_kv_heads;
  json["n_tokens"] = report.n_tokens;
  json["prompts"] = prompts_json(report);
  json["claims"] = Json::array();
  for (const Claim& claim : report.claims) json["claims"].push_back(claim_json(claim));
  json["theorems"] = Json::array();
  for (const Claim& theorem : report.theorems) json["theorems"].push_back(claim_json(theorem));
  json["summary"] = summary_json(report);
  return json_text(json, 2) + "\n";
}

namespace {

using figures::Colour;
using figures::Figure;
using figures::Marker;
using figures::Panel;
using figures::SpreadSeries;

constexpr float kMarkSize = 6;
constexpr double kStep = 0.18;  // between the series of one layer, of the distance between two layers

// One quantity as it is drawn over the layers.
struct LayerSeries {
  std::string_view quantity;
  const char* label;
  Colour colour;
  Marker marker;
};

std::string caption_of(const Report& report) {
  return fmt::format("{}: {}, {}; means over prompts with {:.0f} % bootstrap intervals",
                     report.settings.model.name, describe_extent(report), describe_eviction(report),
                     100 * report.bootstrap.confidence);
}

// A reference to see signs by, under everything else.
figures::LineSeries zero_line(double first, double last) {
  figures::LineSeries line;
  line.id = "zero";
  line.colour = figures::kGrey;
  line.dashed = true;
  line.x = {static_cast<float>(first), static_cast<float>(last)};
  line.y = {0, 0};
  return line;
}

void add(SpreadSeries& series, double x, const SummaryRow* row) {
  if (row != nullptr) series.add(x, row->mean.low, row->mean.mean, row->mean.high);
}

Figure layer_figure(const Report& report, std::string name, std::string title, figures::Axis y,
                    std::initializer_list<LayerSeries> all) {
  Panel panel;
  panel.id = name;
  panel.x = {"layer", "", {}, true};
  panel.y = std::move(y);
  panel.lines.push_back(zero_line(report.layers.front() - 0.5, report.layers.back() + 0.5));
  double offset = -kStep * (static_cast<double>(all.size()) - 1) / 2;
  for (const LayerSeries& one : all) {
    SpreadSeries series(std::string(one.quantity), one.label, one.colour, one.marker, kMarkSize);
    for (const int layer : report.layers)
      add(series, layer + offset, find_row(report.summary, one.quantity, "none", layer));
    std::move(series).put_into(panel);
    offset += kStep;
  }
  Figure figure;
  figure.name = std::move(name);
  figure.title = std::move(title);
  figure.caption = caption_of(report);
  figure.view.runs = {"none"};
  figure.panels.push_back(std::move(panel));
  return figure;
}

Panel policy_panel(const Report& report, std::string_view id) {
  const Quantity& measured = quantity(id);
  Panel panel;
  panel.id = std::string(id);
  panel.title = std::string(measured.title);
  panel.y = {std::string(measured.units.empty() ? measured.title : "mean"), std::string(measured.units)};
  panel.legend = false;
  figures::PolicyLooks looks;
  for (const std::string& run : report.runs) {
    if (run == "none") continue;
    const auto look = looks.next(run);
    SpreadSeries series(run, run, look.colour, look.marker, kMarkSize);
    add(series, static_cast<double>(panel.x.categories.size()), find_row(report.summary, id, run));
    panel.x.categories.push_back(run);
    std::move(series).put_into(panel);
  }
  return panel;
}

Figure policy_figure(const Report& report) {
  Figure figure;
  figure.name = kReportFigures[2];
  figure.title = "What eviction leaves, by policy";
  figure.caption = caption_of(report);
  figure.columns = 2;
  for (const std::string_view id : {"log_volume_nats", "attention_mass_kept", "output_error", "kl_nats"})
    figure.panels.push_back(policy_panel(report, id));
  for (const std::string& run : report.runs)
    if (run != "none") figure.view.runs.push_back(run);
  return figure;
}

}  // namespace

std::vector<Figure> report_figures(const Report& report) {
  return {layer_figure(
              report, std::string(kReportFigures[0]), "Unlike keys and attention, by layer",
              {"rank correlation ρ", ""},
              {{"spearman", "attention per query", figures::kBlue, Marker::kDisc},
               {"spearman_total", "summed attention", figures::kOrange, Marker::kSquare},
               {"spearman_given_position", "per query, given position", figures::kGreen, Marker::kDiamond}}),
          layer_figure(report, std::string(kReportFigures[1]), "Keys and queries, by layer", {"cosine", ""},
                       {{"key_query_mean_cosine", "mean key and mean query", figures::kBlue, Marker::kDisc},
                        {"top_key_query_cosine", "top KeyDiff key and mean query", figures::kVermillion,
                         Marker::kTriangle},
                        {"mean_key_cosine", "keys and mean key", figures::kGrey, Marker::kSquare}}),
          policy_figure(report)};
}

void write_report(const Report& report, const capture::Model& model, std::span<const results::Prompt> prompts,
                  recording::Provenance provenance, const ResultFolder& folder) {
  OutputsTogether outputs;
  const std::vector<figures::Figure> all = report_figures(report);
  const std::vector<PagePicture> pictures = results::draw_pictures(all, folder.file("figures"));
  provenance.configuration = json_text(settings_json(report.settings));
  provenance.model_sha256 = report.settings.model.weights_sha256;
  provenance.seed = static_cast<std::int64_t>(report.settings.seed);
  provenance.device = report.settings.model.device;
  provenance.schedule = "layer";
  figures::write_nexus(
      folder.file("validation.h5"), all,
      results::prompts_origin(model, report.settings.model.name, prompts, std::move(provenance)), true);
  folder.write("validation.html", report_page(report, pictures));
  folder.write("validation.json", report_json(report));
  outputs.commit();
}

}  // namespace keyscope::validation
