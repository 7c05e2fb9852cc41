#include "app/adoption/adoption_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/adoption/tasks.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/example.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/spread.hpp"
#include "app/results/html_page.hpp"
#include "app/results/out_folder.hpp"
#include "app/results/prompts.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::adoption {

namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr const char* kTask = "report";  // of the settings, which for an evaluation name its task
constexpr const char* kFigures = "figures";
constexpr std::array kFiles{"report.json", "report.html", "report.h5"};
constexpr std::string_view kGeometry = "geometry-";

// What answers depend on. What is made of them does not: another tolerance takes the same answers.
Json report_settings(evaluation::Settings settings, std::span<const Task> tasks) {
  settings.task = kTask;
  Json names = Json::array(), hashes = Json::object();
  for (const Task& task : tasks) {
    names.push_back(task.name);
    hashes[task.name] = evaluation::examples_sha256(task.examples);
  }
  settings.task_settings = {{"tasks", std::move(names)}, {"examples_sha256", std::move(hashes)}};
  return evaluation::settings_json(settings);
}

// Pictures of an earlier report that this one has not.
void remove_figures(const fs::path& folder, std::span<const figures::Figure> kept) {
  for (const std::string_view name : adoption_figure_names())
    if (std::ranges::find(kept, name, &figures::Figure::name) == kept.end())
      fs::remove(folder / fmt::format("{}.svg", name));
}

// What may stand in an array of texts of an earlier report's settings.
std::vector<std::string> texts_of(const Json& settings, const char* name) {
  std::vector<std::string> texts;
  for (const Json& text : settings.value(name, Json::array()))
    if (text.is_string()) texts.push_back(text);
  return texts;
}

// A folder of answers or of geometry, but for what is not of this program.
void remove_results(const fs::path& folder) {
  if (!fs::is_directory(fs::symlink_status(folder))) return;
  for (const fs::path& file : evaluation::folder_files(folder, "", false)) fs::remove(file);
  fs::remove_all(folder / "prompts");
  std::error_code not_empty;
  fs::remove(folder, not_empty);
}

// Of an earlier report of these settings: its pages, and answers to tasks and geometry of budgets that may
// not be asked for now.
void remove_report(const fs::path& out, const Json& settings) {
  for (const char* name : kFiles) fs::remove(out / name);
  remove_figures(out / kFigures, {});
  const std::vector<std::string_view> tasks = task_names();
  for (const std::string& task : texts_of(settings, "tasks"))
    if (std::ranges::find(tasks, task) != tasks.end()) remove_results(out / task);
  for (const std::string& budget : texts_of(settings, "budgets"))
    if (budget.find('/') == budget.npos) remove_results(out / geometry_folder(budget));
}

}  // namespace

std::string geometry_folder(const std::string& budget) { return std::string(kGeometry) + budget; }

bool is_of_report(const fs::path& name) {
  const std::string first = name.begin() == name.end() ? "" : name.begin()->string();
  const std::vector<std::string_view> tasks = task_names();
  return first == results::OutFolder::kSettings || first == kFigures || first.starts_with(kGeometry) ||
         std::ranges::find(kFiles, first) != kFiles.end() || std::ranges::find(tasks, first) != tasks.end();
}

results::OutFolder claim_folder(const fs::path& out, const evaluation::Settings& settings,
                                std::span<const Task> tasks, bool discard) {
  results::OutFolder folder(out, report_settings(settings, tasks), kTask, discard);
  folder.require_own([](const Json& task) { return task == kTask; });
  folder.begin();
  if (const auto& discarded = folder.discarded()) remove_report(out, *discarded);
  folder.write_settings();
  return folder;
}

void write_adoption(const Adoption& adoption, const capture::Model& model,
                    std::span<const results::Prompt> prompts, recording::Provenance provenance,
                    const std::filesystem::path& out) {
  const std::vector<figures::Figure> all = adoption_figures(adoption);
  const auto pictures = results::draw_pictures(all, out / kFigures);
  const nlohmann::ordered_json json = adoption_json(adoption);
  provenance.configuration = json_text(json);
  provenance.model_sha256 = adoption.model.weights_sha256;
  provenance.seed = static_cast<std::int64_t>(adoption.seed);
  provenance.device = adoption.model.device;
  provenance.schedule = "block";
  figures::write_nexus(out / "report.h5", all,
                       results::prompts_origin(model, adoption.model.name, prompts, std::move(provenance)),
                       true);
  write_file(out / "report.html", adoption_page(adoption, pictures), true);
  write_file(out / "report.json", json_text(json, 2) + "\n", true);
}

void remove_older_figures(const Adoption& adoption, const std::filesystem::path& out) {
  remove_figures(out / kFigures, adoption_figures(adoption));
}

namespace {

Json mean_json(const analysis::BootstrapMean& mean) {
  return {{"mean", json_number(mean.mean)},
          {"low", json_number(mean.low)},
          {"high", json_number(mean.high)},
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
  json["first_token_ratio"] =
      candidate.first_token_ratio ? benchmarks::ratio_json(*candidate.first_token_ratio) : Json();
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
          {"learned_sink_share", adoption.concentration.learned_sink_share.n_samples > 0
                                     ? mean_json(adoption.concentration.learned_sink_share)
                                     : Json()},
          {"top_share_without_first", json_number(share_without_first(adoption.concentration))},
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
    const Candidate& chosen = adoption.candidates[found.chosen];
    json["recommendation"]["policy"] = chosen.policy;
    json["recommendation"]["budget_text"] = chosen.budget;
  }
  json["ratios"] = adoption.latency_repeat > 0 ? benchmarks::ratio_rules_json(adoption.latency_load) : Json();
  json["prompts"] = {{"n", adoption.prompt_lengths.size()}, {"p95_tokens", adoption.full_memory.p95_length}};
  json["tasks"] = tasks_json(adoption);
  json["full_cache"] = full_json(adoption);
  json["candidates"] = Json::array();
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i)
    json["candidates"].push_back(candidate_json(adoption, i));
  json["diagnosis"] = diagnosis_json(adoption);
  return json;
}

namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;
using figures::SpreadSeries;

constexpr float kMarkSize = 6;

// What is drawn of a candidate: a middle between two ends, none of them finite where there is nothing.
struct Bar {
  double low = 0, middle = 0, high = 0;
};

std::vector<std::string> policies_of(const Adoption& adoption) {
  std::vector<std::string> names;
  for (const Candidate& candidate : adoption.candidates)
    if (std::ranges::find(names, candidate.policy) == names.end()) names.push_back(candidate.policy);
  return names;
}

// A horizontal line across the panel.
LineSeries level(std::string id, std::string label, double y, bool dashed) {
  LineSeries line;
  line.id = std::move(id);
  line.label = std::move(label);
  line.colour = figures::kBlack;
  line.dashed = dashed;
  line.x = {0, 100};
  line.y = {static_cast<float>(y), static_cast<float>(y)};
  return line;
}

// Policies at the same budget are drawn beside each other, or their bars would hide one another.
float dodge_of(std::size_t policy, std::size_t n_policies) {
  constexpr float kStep = 2.2F;  // points on the page
  return kStep * (static_cast<float>(policy) - (static_cast<float>(n_policies) - 1) / 2);
}

Panel memory_panel(const Adoption& adoption, std::string id, std::string title, figures::Axis y,
                   const std::function<Bar(std::size_t candidate)>& bar) {
  Panel panel;
  panel.id = std::move(id);
  panel.title = std::move(title);
  panel.x = {"memory, share of the full cache's", "%"};
  panel.y = std::move(y);
  figures::PolicyLooks looks;
  const std::vector<std::string> policies = policies_of(adoption);
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const auto look = looks.next(policies[p]);
    SpreadSeries series(policies[p], policies[p], look.colour, look.marker, kMarkSize);
    LineSeries line;
    line.dodge_pt = dodge_of(p, policies.size());
    series.dodge(line.dodge_pt);
    line.id = policies[p] + "-line";
    line.colour = look.colour;
    std::vector<std::pair<double, double>> joined;
    for (std::size_t i = 0; i < adoption.candidates.size(); ++i) {
      if (adoption.candidates[i].policy != policies[p]) continue;
      const Bar one = bar(i);
      if (!std::isfinite(one.middle)) continue;
      const double x = 100 * adoption.candidates[i].memory_share;
      const bool spread = std::isfinite(one.low) && std::isfinite(one.high);
      series.add(x, spread ? one.low : one.middle, one.middle, spread ? one.high : one.middle);
      joined.emplace_back(x, one.middle);
    }
    std::ranges::sort(joined);
    for (const auto& [x, value] : joined) {
      line.x.push_back(static_cast<float>(x));
      line.y.push_back(static_cast<float>(value));
    }
    if (line.x.size() > 1) panel.lines.push_back(std::move(line));
    std::move(series).put_into(panel);
  }
  return panel;
}

Bar score_bar(const TaskOutcome& task, const analysis::BootstrapMean& mean) {
  if (task.kind == TaskKind::kLikelihood)
    return {std::exp(mean.low), std::exp(mean.mean), std::exp(mean.high)};
  return {100 * mean.low, 100 * mean.mean, 100 * mean.high};
}

// The worst score that is still within the tolerance, where all that is scored is affected.
double borne(const TaskOutcome& task, double tolerance) {
  const double most = tolerance_of(task.kind, tolerance);
  return task.kind == TaskKind::kLikelihood ? std::exp(task.full.mean + most) : 100 * (task.full.mean - most);
}

std::string caption_of(const Adoption& adoption) {
  return fmt::format(
      "{}: blocks of {}; bars are {:.0f} % bootstrap intervals over examples, not paired; policies at "
      "one budget stand side by side",
      adoption.model.name, adoption.block_size, 100 * adoption.bootstrap.confidence);
}

Figure figure_of(const Adoption& adoption, std::string name, std::string title, std::vector<Panel> panels) {
  Figure figure;
  figure.name = std::move(name);
  figure.title = std::move(title);
  figure.caption = caption_of(adoption);
  figure.columns = panels.size() > 1 ? 2 : 1;
  figure.view.runs = policies_of(adoption);
  for (std::size_t i = 1; i < panels.size(); ++i) panels[i].legend = false;
  figure.panels = std::move(panels);
  return figure;
}

Figure accuracy_figure(const Adoption& adoption) {
  std::vector<Panel> panels;
  for (const TaskOutcome& task : adoption.tasks) {
    const bool share = task.kind == TaskKind::kScore;
    panels.push_back(memory_panel(adoption, task.name, task.name, {task.metric, share ? "%" : ""},
                                  [&](std::size_t i) { return score_bar(task, task.scores[i]); }));
    auto& lines = panels.back().lines;
    lines.push_back(level("full", "full cache", score_bar(task, task.full).middle, false));
    lines.push_back(level("tolerance", "worst that is borne", borne(task, adoption.rule.tolerance), true));
  }
  Figure figure = figure_of(adoption, "accuracy-by-memory", "Scores, by memory", std::move(panels));
  if (!all_affected(adoption))
    figure.caption += "; scores of all examples, and what is borne where eviction affects all of them";
  return figure;
}

// Whether there is a time that can be told.
bool any_told(const Adoption& adoption) {
  return std::ranges::any_of(adoption.candidates, [](const Candidate& candidate) {
    return candidate.first_token_ratio && candidate.first_token_ratio->told();
  });
}

// What cannot be told is not drawn.
Figure latency_figure(const Adoption& adoption) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  Panel panel = memory_panel(adoption, "first-token", "",
                             {"time to the first token, share of the full cache's", "%"}, [&](std::size_t i) {
                               const auto& one = adoption.candidates[i].first_token_ratio;
                               if (!one || !one->told()) return Bar{kNothing, kNothing, kNothing};
                               return Bar{100 * one->low, 100 * one->ratio, 100 * one->high};
                             });
  panel.lines.push_back(level("full", "full cache", 100, false));
  Figure figure = figure_of(adoption, "first-token-by-memory", "Time to the first token, by memory", {});
  figure.caption = fmt::format(
      "{}: a prompt of {} tokens, blocks of {}; medians of {} paired rounds, bars are their exact {:.0f} % "
      "intervals",
      adoption.model.name, adoption.full_memory.p95_length, adoption.block_size, adoption.latency_repeat,
      100 * benchmarks::kRatioConfidence);
  if (const auto doubts = latency_doubts(adoption); !doubts.empty())
    figure.caption += fmt::format("; what is missing cannot be told: {}", doubts.front());
  figure.panels.push_back(std::move(panel));
  return figure;
}

Figure redundancy_figure(const Adoption& adoption) {
  const auto bar = [](const analysis::BootstrapMean& mean) { return Bar{mean.low, mean.mean, mean.high}; };
  Panel cosine = memory_panel(adoption, "mean-pairwise-cosine", "", {"mean cosine of two retained keys", ""},
                              [&](std::size_t i) { return bar(adoption.retained[i].mean_pairwise_cosine); });
  cosine.lines.push_back(level("full", "all keys", adoption.full_retained.mean_pairwise_cosine.mean, false));
  Panel mass = memory_panel(adoption, "attention-mass-kept", "", {"attention kept", "%"}, [&](std::size_t i) {
    const analysis::BootstrapMean& kept = adoption.retained[i].attention_mass_kept;
    return Bar{100 * kept.low, 100 * kept.mean, 100 * kept.high};
  });
  mass.lines.push_back(level("full-mass", "full cache", 100, false));  // so that both panels share their axis
  Figure figure = figure_of(adoption, "redundancy-by-memory", "What the cache holds, by memory",
                            {std::move(cosine), std::move(mass)});
  figure.caption = fmt::format(
      "{}: {} prompts, blocks of {}; bars are {:.0f} % bootstrap intervals over prompts", adoption.model.name,
      adoption.n_diagnosed, adoption.block_size, 100 * adoption.bootstrap.confidence);
  return figure;
}

}  // namespace

std::vector<std::string_view> adoption_figure_names() {
  return {"accuracy-by-memory", "first-token-by-memory", "redundancy-by-memory", "prompt-lengths"};
}

std::vector<Figure> adoption_figures(const Adoption& adoption) {
  std::vector<Figure> all{accuracy_figure(adoption)};
  if (any_told(adoption)) all.push_back(latency_figure(adoption));
  if (adoption.n_diagnosed > 0) all.push_back(redundancy_figure(adoption));
  const auto lengths = results::measure_lengths(adoption.prompt_lengths, {});
  all.push_back(results::prompt_lengths_figure(lengths, "Of all tasks"));
  return all;
}

}  // namespace keyscope::adoption
