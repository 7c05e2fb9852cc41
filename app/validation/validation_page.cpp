// The page that people read of a validation.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "app/results/html_page.hpp"
#include "app/results/prompts.hpp"
#include "app/validation/validation_report.hpp"
#include "base/interval_text.hpp"
#include "base/text.hpp"

namespace keyscope::validation {

using results::html_table;
using results::HtmlCell;
using results::PagePicture;

namespace {

std::string_view verdict_class(Verdict verdict) {
  if (verdict == Verdict::kSupported) return "supported";
  return verdict == Verdict::kNotSupported ? "refuted" : "open";
}

std::string_view verdict_mark(Verdict verdict) {
  if (verdict == Verdict::kSupported) return "✓";
  return verdict == Verdict::kNotSupported ? "✗" : "?";
}

// Of a claim, of one of its findings, or of it without sinks.
template <typename Judged>
std::string marked_verdict(const Judged& judged) {
  return fmt::format("{} {}", verdict_mark(judged.verdict), verdict_text(judged));
}

std::string findings_table(const std::vector<Finding>& findings) {
  std::vector<std::vector<HtmlCell>> rows;
  bool tallies = false;
  for (const Finding& finding : findings) {
    auto& row = rows.emplace_back();
    const analysis::BootstrapMean& mean = finding.mean;
    row = {finding.label, number_text(mean.mean, interval_decimals(mean.low, mean.high, 0)),
           interval_text(mean.low, mean.high), std::to_string(mean.n_samples)};
    if (finding.tally) {
      tallies = true;
      row.emplace_back(std::to_string(finding.tally->pairs));
      row.emplace_back(std::to_string(finding.tally->violations));
      row.emplace_back(finding.tally->min_slack ? number_text(*finding.tally->min_slack) : "–");
    }
    row.emplace_back(marked_verdict(finding));
  }
  std::vector<std::string> head{"", "mean", "interval", "prompts"};
  if (tallies) head.insert(head.end(), {"pairs", "violations", "least slack"});
  head.emplace_back("verdict");
  return html_table(head, rows);
}

std::string claim_card(const Claim& claim) {
  std::string html = fmt::format(
      "<section class=\"claim {}\" id=\"{}\"><header><h3>{}</h3><span class=\"verdict\">{}</span>"
      "</header>\n",
      verdict_class(claim.verdict), html_text(claim.id), html_text(claim.question), marked_verdict(claim));
  html += fmt::format("<p class=\"soft\">{}{} · {}</p>\n", html_text(claim.quantity),
                      claim.units.empty() ? "" : ", " + html_text(claim.units), html_text(claim.source));
  html += findings_table(claim.findings);
  std::string remark = claim.remark;
  if (claim.heads > 0)
    remark += fmt::format("{}{} of {} KV heads lie on the claimed side of zero", remark.empty() ? "" : "; ",
                          claim.heads_agreeing, claim.heads);
  if (!remark.empty()) html += fmt::format("<p>{}.</p>\n", html_text(remark));
  html += fmt::format("<p class=\"rule\">Rule: {}.</p>\n", html_text(claim.rule));
  if (claim.without_sinks)
    html += fmt::format(
        "<p>If queries had divided all of their attention among the tokens, as without the heads' learned "
        "sinks: {}.</p>\n{}",
        marked_verdict(*claim.without_sinks), findings_table(claim.without_sinks->findings));
  if (!claim.by_layer.empty())
    html +=
        fmt::format("<details><summary>By layer</summary>\n{}</details>\n", findings_table(claim.by_layer));
  return html + "</section>\n";
}

// All verdicts at a glance; the questions lead to their cards.
std::string overview(std::span<const Claim> claims) {
  std::string html = "<ul class=\"overview\">\n";
  for (const Claim& claim : claims)
    html += fmt::format("<li class=\"{}\"><span class=\"verdict\">{}</span> <a href=\"#{}\">{}</a></li>\n",
                        verdict_class(claim.verdict), marked_verdict(claim), html_text(claim.id),
                        html_text(claim.question));
  return html + "</ul>\n";
}

// What is measured, and apart from it what is proved.
std::string claim_sections(const Report& report) {
  std::string html = "<h2>Claims, as measured</h2>\n";
  for (const Claim& claim : report.claims) html += claim_card(claim);
  html +=
      "<h2>Theorems, as checks</h2>\n<p class=\"soft\">What the paper proves cannot fail: a violation would "
      "be a bug in Keyscope or in the recording, and says nothing of the model. How often the hypotheses "
      "apply is measured.</p>\n";
  for (const Claim& theorem : report.theorems) html += claim_card(theorem);
  return html;
}

// "177.3 [176.9, 177.7]", to be broken before the interval only.
std::string mean_with_interval(const analysis::BootstrapMean& mean) {
  std::string text = mean_text(mean.mean, mean.low, mean.high);
  if (const auto comma = text.find(", "); comma != std::string::npos) text.replace(comma + 1, 1, "\u00A0");
  return text;
}

std::string policies_table(const Report& report) {
  std::vector<std::string> head{"policy"};
  std::vector<const Quantity*> shown;
  for (const Quantity& one : quantities())
    if (one.against_full_cache || one.id == "log_volume_nats" || one.id == "regularised_log_volume_nats" ||
        one.id == "mean_pairwise_cosine") {
      shown.push_back(&one);
      head.push_back(one.units.empty() ? std::string(one.title)
                                       : fmt::format("{}, {}", one.title, one.units));
    }
  std::vector<std::vector<HtmlCell>> rows;
  for (const std::string& run : report.runs) {
    auto& row = rows.emplace_back(1, HtmlCell(run));
    for (const Quantity* one : shown) {
      const SummaryRow* found = find_row(report.summary, one->id, run);
      row.emplace_back(found ? mean_with_interval(found->mean) : "–");
    }
  }
  return html_table(head, rows);
}

std::string prompts_table(const Report& report) {
  std::vector<std::vector<HtmlCell>> rows;
  rows.reserve(report.prompts.size());
  for (const ReportedPrompt& prompt : report.prompts)
    rows.push_back(
        {prompt.name, prompt.beginning, std::to_string(prompt.n_tokens), std::to_string(prompt.budget)});
  return html_table({"prompt", "begins", "tokens", "budget N"}, rows, 1);
}

std::string picture(const PagePicture& picture) {
  return fmt::format("<figure><img alt=\"{}\" src=\"{}\"></figure>\n", html_text(picture.title),
                     results::data_url("image/svg+xml", picture.svg));
}

std::string heading(const Report& report) {
  std::string html =
      fmt::format("<h1>Key diversity and attention in {}</h1>\n", html_text(report.settings.model.name));
  html += fmt::format("<p class=\"advice\">{}.</p>\n", html_text(headline(report)));
  html += fmt::format("<p class=\"soft\">{}; {}; {}</p>\n", html_text(describe_model(report)),
                      html_text(describe_extent(report)), html_text(describe_eviction(report)));
  html += fmt::format(
      "<p>Whether what KeyDiff (arXiv 2504.15364) rests on holds here. Every mean is over prompts, with a "
      "{:.0f} % bootstrap interval ({} resamples, seed {}).</p>\n",
      100 * report.bootstrap.confidence, report.bootstrap.n_resamples, report.bootstrap.seed);
  if (const std::string sinks = describe_sinks(report); !sinks.empty())
    html += fmt::format(
        "<p>In this model {}; claims about attention are judged with them, and once more without.</p>\n",
        html_text(sinks));
  return html;
}

}  // namespace

std::string report_page(const Report& report, std::span<const PagePicture> pictures) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Keyscope: {}</title>\n<style>{}</style>\n</head>\n<body>\n",
      html_text(report.settings.model.name), results::kPageStyle);
  html += heading(report) + overview(report.claims) +
          "<p class=\"soft\">Theorems, which cannot fail but by a bug:</p>\n" + overview(report.theorems) +
          claim_sections(report);
  html += "<h2>Figures</h2>\n";
  for (const PagePicture& one : pictures) html += picture(one);
  html += "<h2>Policies</h2>\n" + policies_table(report);
  html += "<h2>Prompts</h2>\n" + prompts_table(report);
  return html + "</body>\n</html>\n";
}

}  // namespace keyscope::validation
