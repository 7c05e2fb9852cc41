#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/adoption/adoption_report.hpp"
#include "app/results/html_page.hpp"
#include "base/interval_text.hpp"
#include "base/text.hpp"

namespace keyscope::adoption {
namespace {

using analysis::BootstrapMean;
using results::html_table;
using results::HtmlCell;

constexpr std::string_view kNoBreak = "\u00A0";  // a space

using Rows = std::vector<std::vector<HtmlCell>>;

constexpr std::string_view kOwnStyle = R"css(
body { max-width: 80rem; } p, ul, figcaption { max-width: 62rem; }
figure { max-width: 66rem; } h3 { margin: 1.75rem 0 .6rem; }
td, td.text { white-space: nowrap; } td.fit { background: #e3f4ee; } td.unfit { background: #fbe9df; }
)css";

std::string_view look_of(Fitness fitness) {
  if (fitness == Fitness::kFit) return "fit";
  return fitness == Fitness::kUnfit ? "unfit" : "";
}

// Marks as well as backgrounds, so that colour is never the only cue.
std::string_view mark_of(Fitness fitness) {
  if (fitness == Fitness::kFit) return "✓";
  return fitness == Fitness::kUnfit ? "✗" : "?";
}

std::string fitness_text(Fitness fitness) {
  return fmt::format("{} {}", mark_of(fitness), fitness_name(fitness));
}

// "1.5 [−0.2, 3.1]", to be broken before the interval only.
std::string unbroken(std::string text) {
  if (const auto at = text.find(", "); at != std::string::npos) text.replace(at + 1, 1, kNoBreak);
  return text;
}

// In per cent.
std::string percent_cell(const BootstrapMean& mean) {
  return unbroken(mean_text(100 * mean.mean, 100 * mean.low, 100 * mean.high, 1));
}

// "84.2 [80.1, 88.0]" in per cent, or a perplexity.
std::string score_text(const TaskOutcome& task, const BootstrapMean& mean) {
  if (task.kind == TaskKind::kLikelihood)
    return unbroken(mean_text(std::exp(mean.mean), std::exp(mean.low), std::exp(mean.high)));
  return percent_cell(mean);
}

// "1.5 [−0.2, 3.1]", in points of a score or per cent of a perplexity.
std::string loss_text(const TaskLoss& task, double tolerance) {
  if (task.after_eviction == 0) return "nothing evicted";
  if (!solved_by_full(task, tolerance)) return "not solved by the full cache";
  const auto percent = [&](double value) { return percent_lost(task.kind, value); };
  return unbroken(mean_text(percent(task.loss.mean), percent(task.loss.low), percent(task.loss.high), 1));
}

std::string heading_of(const Candidate& candidate) {
  return fmt::format("{} · {}", candidate.policy, candidate.budget);
}

std::string mean_cell(const BootstrapMean& mean) {
  return mean.n_samples == 0 ? "–" : unbroken(mean_text(mean.mean, mean.low, mean.high));
}

std::string heading(const Adoption& adoption) {
  const Recommendation& found = adoption.recommendation;
  std::int64_t n_examples = 0;
  for (const TaskOutcome& task : adoption.tasks) n_examples += task.n_examples;
  std::string html =
      fmt::format("<h1>May the cache of {} be evicted?</h1>\n", html_text(adoption.model.name));
  html += fmt::format(
      "<p class=\"soft\">{} examples of {} tasks; blocks of {}; {} on {}; weights {}; seed {}</p>\n",
      n_examples, adoption.tasks.size(), adoption.block_size, html_text(adoption.model.dtype),
      html_text(adoption.model.device), html_text(adoption.model.weights_sha256.substr(0, 12)),
      adoption.seed);
  html += fmt::format("<p class=\"advice\">{}.</p>\n",
                      html_text(recommendation_text(found, adoption.candidates, adoption.rule)));
  return html + fmt::format("<p class=\"rule\">Rule: {}.</p>\n", html_text(rule_text(adoption.rule)));
}

// One row a candidate: what decides.
std::string decision_table(const Adoption& adoption) {
  std::vector<std::string> head{"policy · budget", "verdict", "memory"};
  if (adoption.latency_repeat > 0) head.emplace_back("first token, × full cache");
  for (const TaskOutcome& task : adoption.tasks)
    head.push_back(fmt::format("{}: loss {}", task.name,
                               task.kind == TaskKind::kScore ? "of affected examples, points"
                                                             : "per affected token, % of perplexity"));
  Rows rows;
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i) {
    const Candidate& candidate = adoption.candidates[i];
    const Fitness fitness = adoption.recommendation.fitness[i];
    const bool chosen = std::cmp_equal(i, adoption.recommendation.chosen);
    auto& row = rows.emplace_back();
    row.emplace_back(heading_of(candidate) + (chosen ? " (recommended)" : ""));
    row.emplace_back(fitness_text(fitness), std::string(look_of(fitness)));
    row.emplace_back(fmt::format("{:.1f} %", 100 * candidate.memory_share));
    if (adoption.latency_repeat > 0)
      row.emplace_back(unbroken(benchmarks::ratio_text(*candidate.first_token_ratio)));
    for (const TaskLoss& task : candidate.losses)
      row.emplace_back(loss_text(task, adoption.rule.tolerance),
                       std::string(look_of(judge_loss(task, adoption.rule.tolerance))));
  }
  return html_table(head, rows, 1);
}

std::string accuracy_table(const Adoption& adoption) {
  std::vector<std::string> head{"policy · budget"};
  std::vector<HtmlCell> full{"full cache"};
  for (const TaskOutcome& task : adoption.tasks) {
    head.push_back(fmt::format("{}{}{}, {}", task.name, task.metric == task.name ? "" : ": " + task.metric,
                               task.kind == TaskKind::kScore ? ", %" : "", examples_text(task)));
    full.emplace_back(score_text(task, task.full));
  }
  Rows rows{full};
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i) {
    auto& row = rows.emplace_back(1, HtmlCell(heading_of(adoption.candidates[i])));
    for (const TaskOutcome& task : adoption.tasks) row.emplace_back(score_text(task, task.scores[i]));
  }
  return html_table(head, rows);
}

// "all 200", "120 of 200 examples", "3200 of 4000 tokens".
std::string affected_text(const TaskLoss& task) {
  if (task.n_affected == task.n_scored) return fmt::format("all {}", task.n_scored);
  return fmt::format("{} of {} {}", task.n_affected, task.n_scored,
                     task.kind == TaskKind::kScore ? "examples" : "tokens");
}

// How much came after an eviction, where that is not all.
std::string affected_table(const Adoption& adoption) {
  if (all_affected(adoption)) return "";
  std::vector<std::string> head{"policy · budget"};
  for (const TaskOutcome& task : adoption.tasks)
    head.push_back(
        fmt::format("{}: affected {}", task.name, task.kind == TaskKind::kScore ? "examples" : "tokens"));
  Rows rows;
  for (const Candidate& candidate : adoption.candidates) {
    auto& row = rows.emplace_back(1, HtmlCell(heading_of(candidate)));
    for (const TaskLoss& task : candidate.losses) row.emplace_back(affected_text(task));
  }
  return "<p class=\"soft\">Affected is what came when something had been evicted. The rest is as under the "
         "full cache and can lose nothing, so that losses are of the affected alone; scores are of "
         "all.</p>\n" +
         html_table(head, rows);
}

// "under random · 25%, sink · 50%", or that it is so under all.
std::string under_text(const Adoption& adoption, const std::vector<std::string>& names) {
  if (names.size() == adoption.candidates.size()) return "under every policy and budget";
  return fmt::format("under {}", fmt::join(names, ", "));
}

// Why there is no verdict on a task, where the table does not show it.
std::string doubts(const Adoption& adoption) {
  std::string items;
  for (std::size_t t = 0; t < adoption.tasks.size(); ++t) {
    std::map<std::string, std::vector<std::string>> candidates;  // by reason
    for (const Candidate& candidate : adoption.candidates) {
      const TaskLoss& task = candidate.losses[t];
      const std::string doubt = doubt_text(task, adoption.rule.tolerance);
      if (!doubt.empty() && task.after_eviction > 0) candidates[doubt].push_back(heading_of(candidate));
    }
    for (const auto& [doubt, names] : candidates)
      items += fmt::format("<li>{}: {}, {}</li>\n", html_text(adoption.tasks[t].name), html_text(doubt),
                           html_text(under_text(adoption, names)));
  }
  if (items.empty()) return "";
  return "<p class=\"soft\">What is undecided, and why:</p>\n<ul class=\"soft\">\n" + items + "</ul>\n";
}

// What was left out of the tasks' files; nothing where nothing was.
std::string skipped_rows(const Adoption& adoption) {
  std::string items;
  for (const TaskOutcome& task : adoption.tasks)
    for (const std::string& row : task.bad_rows) items += fmt::format("<li>{}</li>\n", html_text(row));
  if (items.empty()) return "";
  return "<p class=\"soft\">Rows that were skipped, since they cannot be used:</p>\n<ul class=\"soft\">\n" +
         items + "</ul>\n";
}

std::string memory_table(const Adoption& adoption) {
  Rows rows;
  const auto add = [&](const std::string& name, const CacheMemory& memory) {
    rows.push_back({name, fmt::format("{:.1f} %", 100 * memory.occupancy),
                    bytes_text(std::llround(memory.mean_bytes)), bytes_text(memory.p95_bytes),
                    bytes_text(memory.p95_peak_bytes)});
  };
  add("full cache", adoption.full_memory);
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i)
    add(heading_of(adoption.candidates[i]), adoption.memory[i]);
  const std::string p95 = fmt::format("at {} tokens", adoption.full_memory.p95_length);
  return html_table({"policy · budget", "rows kept", "mean over prompts", p95, "the most while it is read"},
                    rows);
}

// "load average at most 1.93, 2 processors".
std::string load_text(const benchmarks::MachineLoad& load) {
  const std::string processors = counted(load.processors, "processor");
  return load.most ? fmt::format("load average at most {:.2f}, {}", *load.most, processors) : processors;
}

std::string latency_section(const Adoption& adoption) {
  if (adoption.latency_repeat == 0) return "";
  Rows rows;
  const auto add = [&](const std::string& name, const benchmarks::Spread& spread,
                       const benchmarks::PairedRatio& ratio) {
    rows.push_back({name, fmt::format("{:.1f}", spread.median), fmt::format("{:.1f}", spread.least),
                    fmt::format("{:.1f}", spread.most), unbroken(benchmarks::ratio_text(ratio))});
  };
  add("full cache", adoption.full_first_token_ms, benchmarks::unit_ratio(adoption.latency_repeat));
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i)
    add(heading_of(adoption.candidates[i]), adoption.first_token_ms[i],
        *adoption.candidates[i].first_token_ratio);
  std::string html = fmt::format(
      "<h2>Time to the first token</h2>\n<p class=\"soft\">Of a prompt of {} tokens, the 95th percentile of "
      "the tasks' lengths; {}, each of all in turn; on this machine ({}).</p>\n",
      adoption.full_memory.p95_length, counted(adoption.latency_repeat, "round"),
      load_text(adoption.latency_load));
  for (const std::string& doubt : latency_doubts(adoption))
    html += fmt::format("<p>Cannot be told: {}.</p>\n", html_text(doubt));
  html += html_table({"policy · budget", "median, ms", "least", "most", "× full cache"}, rows);
  return html + fmt::format("<p class=\"rule\">Rule: {}.</p>\n", html_text(benchmarks::ratio_rules_text()));
}

std::string diagnosis_section(const Adoption& adoption) {
  if (adoption.n_diagnosed == 0) return "";
  const Concentration& spread = adoption.concentration;
  std::string html = fmt::format(
      "<h2>Why</h2>\n<p class=\"soft\">Keys and attention of {} of the prompts, {} tokens; means over "
      "prompts of "
      "means over heads.</p>\n<p>{}.</p>\n<p>{}.</p>\n",
      adoption.n_diagnosed, adoption.n_diagnosed_tokens, html_text(premise_text(adoption.geometry)),
      html_text(focus_text(spread)));
  if (const std::string redundancy = redundancy_text(adoption); !redundancy.empty())
    html += fmt::format("<p>{}.</p>\n", html_text(redundancy));
  html +=
      html_table({"under the full cache", "mean"},
                 {{"ρ of −cos(key, mean key) with attention", mean_cell(adoption.geometry.spearman)},
                  {"cosine of mean key and mean query", mean_cell(adoption.geometry.key_query_mean_cosine)},
                  {"attention of the 1 % of positions that receive most", mean_cell(spread.top_share)},
                  {"Gini coefficient of attention received", mean_cell(spread.gini)},
                  {"entropy of a query's attention, nats", mean_cell(spread.entropy_nats)},
                  {"attention that the first position receives", mean_cell(spread.sink_metric)},
                  {"of what it leaves, the others of the 1 %", number_text(share_without_first(spread))}});
  Rows rows;
  const auto add = [&](const std::string& name, const Retained& retained) {
    rows.push_back({name, mean_cell(retained.mean_pairwise_cosine), mean_cell(retained.log_volume_nats),
                    percent_cell(retained.attention_mass_kept), mean_cell(retained.kl_nats)});
  };
  rows.push_back({"full cache", mean_cell(adoption.full_retained.mean_pairwise_cosine),
                  mean_cell(adoption.full_retained.log_volume_nats), "100", "–"});
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i)
    add(heading_of(adoption.candidates[i]), adoption.retained[i]);
  return html + "<h3>What the cache holds after a prompt</h3>\n" +
         html_table({"policy · budget", "mean cosine of two keys", "log volume, nats", "attention kept, %",
                     "KL to the full cache, nats"},
                    rows);
}

}  // namespace

std::string adoption_page(const Adoption& adoption, std::span<const results::PagePicture> pictures) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Keyscope: eviction in {}</title>\n<style>{}{}</style>\n</head>\n<body>\n",
      html_text(adoption.model.name), results::kPageStyle, kOwnStyle);
  html += heading(adoption) + decision_table(adoption) + doubts(adoption) + affected_table(adoption);
  for (const results::PagePicture& picture : pictures)
    html += fmt::format("<figure><img alt=\"{}\" src=\"{}\"></figure>\n", html_text(picture.title),
                        results::data_url("image/svg+xml", picture.svg));
  html += "<h2>Accuracy</h2>\n" + accuracy_table(adoption) + skipped_rows(adoption);
  html +=
      "<h2>Memory</h2>\n<p class=\"soft\">Keys and values of one prompt at a time, all layers. Rows kept are "
      "the mean of every prompt's share; memory above is the share of all prompts' bytes.</p>\n" +
      memory_table(adoption);
  html += latency_section(adoption) + diagnosis_section(adoption);
  html += fmt::format(
      "<p class=\"soft\">Intervals: {:.0f} % percentile bootstrap over examples or prompts, {} resamples, "
      "seed {}; that of a score's loss ends no lower than the exact binomial one of as many failures as its "
      "losses add up to. Data sets of one task weigh the same. Every answer with its scores: examples.jsonl "
      "in the folder of each task.</p>\n",
      100 * adoption.bootstrap.confidence, adoption.bootstrap.n_resamples, adoption.bootstrap.seed);
  return html + "</body>\n</html>\n";
}

}  // namespace keyscope::adoption
