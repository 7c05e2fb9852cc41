#include "app/grid/grid_report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/task_report.hpp"
#include "app/results/run_identity.hpp"
#include "base/text.hpp"

namespace keyscope::grid {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kSignificant = 0.05;  // of adjusted values

std::string signed_text(double value) { return (value > 0.05 ? "+" : "") + format_signed(value, 1); }

// The values but these of a slot: "keydiff, snapkv".
std::string other_values(const GridPlan& plan, Slot slot, std::size_t but) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.values[slot].size(); ++i)
    if (i != but) names.push_back(plan.values[slot][i]);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string base_words(const GridPlan& plan) {
  std::string words = plan.values[Slot::kScorer][plan.base[Slot::kScorer]];
  for (const Slot slot : kSlots)
    if (slot != Slot::kScorer)
      words += fmt::format(", {} {}", slot_words(slot), plan.values[slot][plan.base[slot]]);
  return words;
}

std::size_t widest(const std::vector<std::string>& words, std::size_t least) {
  for (const std::string& word : words) least = std::max(least, word.size());
  return least;
}

double mean_of(const TaskScores& task, std::span<const double> points) {
  double sum = 0;
  for (const auto& examples : task.data_sets) {
    double of_set = 0;
    for (const std::size_t example : examples) of_set += points[example];
    sum += of_set / static_cast<double>(examples.size());
  }
  return sum / static_cast<double>(task.data_sets.size());
}

// Scorers by protection, the other slots at the base: one task, one setting.
std::string scores_table(const GridScores& scores, std::size_t t, std::size_t k) {
  const GridPlan& plan = scores.plan;
  const TaskScores& task = scores.tasks[t];
  const auto& protections = plan.values[Slot::kProtection];
  const std::size_t wide = widest(plan.values[Slot::kScorer], 8);
  std::string table =
      fmt::format("{}, {} in %, N = {}: the full cache has {:.1f}\n  {:<{}}", task.task, task.metric,
                  scores.settings[k].label, mean_of(task, task.full[k]), "", wide);
  for (const std::string& protection : protections) table += fmt::format("  {:>8}", protection);
  table += '\n';
  for (std::size_t s = 0; s < plan.values[Slot::kScorer].size(); ++s) {
    table += fmt::format("  {:<{}}", plan.values[Slot::kScorer][s], wide);
    for (std::size_t p = 0; p < protections.size(); ++p) {
      BySlot<std::size_t> at = plan.base;
      at[Slot::kScorer] = s;
      at[Slot::kProtection] = p;
      const auto method = plan.find(at);
      table += fmt::format(
          "  {:>{}}", method ? fmt::format("{:.1f}", mean_of(task, task.methods[k][*method].points)) : "–",
          std::max<std::size_t>(8, protections[p].size()) + (method ? 0 : 2));
    }
    table += '\n';
  }
  return table;
}

// A row of what slots change: a value in every task and setting.
std::string difference_cells(const GridFindings& findings, Slot slot, std::size_t value, bool at_base) {
  std::string cells;
  for (const GridDifference& difference : findings.differences)
    if (difference.slot == slot && difference.value == value && (difference.n_pairs == 1) == at_base)
      cells += fmt::format("  {:>14}", signed_text(difference.points.mean) +
                                           (difference.test.adjusted_p < kSignificant ? "*" : " "));
  return cells;
}

std::string differences_table(const GridFindings& findings) {
  const GridScores& scores = findings.scores;
  std::size_t wide = 12;
  for (const Slot slot : kSlots) wide = widest(scores.plan.values[slot], wide);
  std::string table =
      fmt::format("What each slot changes against {}, in points; * p < {} among all {} differences\n  {:<{}}",
                  base_words(scores.plan), kSignificant, findings.differences.size(), "", wide);
  for (const TaskScores& task : scores.tasks)
    for (const GridSetting& setting : scores.settings)
      table += fmt::format("  {:>14}", fmt::format("{:.8} {}", task.task, setting.budget_text));
  table += '\n';
  for (const Slot slot : kSlots)
    for (const bool at_base : {true, false}) {
      std::string rows;
      for (std::size_t value = 0; value < scores.plan.values[slot].size(); ++value)
        if (const std::string cells = difference_cells(findings, slot, value, at_base); !cells.empty())
          rows += fmt::format("  {:<{}}{}\n", scores.plan.values[slot][value], wide, cells);
      if (!rows.empty())
        table +=
            fmt::format("{}{}\n{}", slot_words(slot), at_base ? "" : ", mean over what is crossed", rows);
    }
  return table;
}

}  // namespace

GridFindings find(GridScores scores) {
  GridFindings findings{std::move(scores), {}, {}};
  findings.differences = grid_differences(findings.scores);
  findings.parts = lead_parts(findings.scores);
  return findings;
}

std::string points_text(const analysis::BootstrapMean& points) {
  if (!std::isfinite(points.low)) return format_signed(points.mean, 1);
  return fmt::format("{} [{}, {}]", format_signed(points.mean, 1), format_signed(points.low, 1),
                     format_signed(points.high, 1));
}

std::string answer_text(const GridFindings& findings) {
  const GridPlan& plan = findings.scores.plan;
  if (findings.parts.empty())
    return "How much of a lead is score, and how much protection, cannot be said: " + no_parts_because(plan);
  const LeadParts& all = findings.parts.front();
  const std::string& reference = plan.values[Slot::kScorer][*plan.reference];
  const auto percent = [](double share) { return format_signed(100 * share, 0); };
  const std::string share =
      std::isfinite(all.share.low)
          ? fmt::format("protection is {} % [{}, {}] of the lead", percent(all.share.mean),
                        percent(all.share.low), percent(all.share.high))
          : std::string("a lead that may be none has no shares");
  return fmt::format(
      "With protection the scorers ({}) lead {} without any by {} points, of which {} are their score and {} "
      "their protection: {}. Without protection they lead {} by {} points, with the same protection by {}; "
      "protection alone gives {} {} points, and them {}.",
      other_values(plan, Slot::kScorer, *plan.reference), reference, points_text(all.lead),
      points_text(all.score), points_text(all.protection_part), share, reference,
      points_text(all.score_alone), points_text(all.score_protected), reference,
      points_text(all.protection_alone), points_text(all.protection_scored));
}

std::string grid_table(const GridFindings& findings) {
  std::string text;
  for (std::size_t t = 0; t < findings.scores.tasks.size(); ++t)
    for (std::size_t k = 0; k < findings.scores.settings.size(); ++k)
      text += scores_table(findings.scores, t, k) + "\n";
  return text + differences_table(findings) + "\n" + answer_text(findings) + "\n";
}

namespace {

void add_points(Json& json, const std::string& name, const analysis::BootstrapMean& points) {
  evaluation::add_score(json, name, {points.mean, points.low, points.high});
}

Json slots_json(const GridPlan& plan, const Method& method) {
  Json json = Json::object();
  for (const Slot slot : kSlots) json[std::string(slot_name(slot))] = plan.value(slot, method);
  return json;
}

Json cells_json(const GridScores& scores) {
  Json cells = Json::array();
  for (const TaskScores& task : scores.tasks)
    for (std::size_t k = 0; k < scores.settings.size(); ++k)
      for (std::size_t m = 0; m < scores.plan.methods.size(); ++m) {
        const MethodScores& found = task.methods[k][m];
        Json& cell = cells.emplace_back(Json{{"task", task.task}, {"policy", scores.plan.methods[m].policy}});
        cell.update(slots_json(scores.plan, scores.plan.methods[m]));
        cell["budget"] = found.budget;
        cell["budget_text"] = scores.settings[k].budget_text;
        cell["block"] = scores.settings[k].block;
        cell["n"] = task.n_examples;
        cell["rows_kept"] = found.rows_kept;
        add_points(cell, "points", mean_points(task, found.points, scores.seed));
      }
  return cells;
}

Json tasks_json(const GridScores& scores) {
  Json tasks = Json::array();
  for (const TaskScores& task : scores.tasks) {
    Json& json = tasks.emplace_back(Json{{"task", task.task},
                                         {"metric", task.metric},
                                         {"n", task.n_examples},
                                         {"data_sets", task.data_sets.size()}});
    json["full"] = Json::array();
    for (std::size_t k = 0; k < scores.settings.size(); ++k) {
      const std::int64_t block = scores.settings[k].block;
      if (k > 0 && block == scores.settings[k - 1].block) continue;  // the same under every budget
      add_points(json["full"].emplace_back(Json{{"block", block}}), "points",
                 mean_points(task, task.full[k], scores.seed));
    }
  }
  return tasks;
}

Json differences_json(const GridFindings& findings) {
  const GridScores& scores = findings.scores;
  Json differences = Json::array();
  for (const GridDifference& found : findings.differences) {
    const auto& values = scores.plan.values[found.slot];
    Json& json = differences.emplace_back(Json{{"task", scores.tasks[found.task].task},
                                               {"budget_text", scores.settings[found.setting].budget_text},
                                               {"block", scores.settings[found.setting].block},
                                               {"slot", slot_name(found.slot)},
                                               {"value", values[found.value]},
                                               {"against", values[scores.plan.base[found.slot]]},
                                               {"pairs", found.n_pairs},
                                               {"n", found.points.n_samples}});
    add_points(json, "points", found.points);
    json["p"] = found.test.p;
    json["adjusted_p"] = found.test.adjusted_p;
  }
  return differences;
}

Json parts_json(const GridFindings& findings) {
  const GridScores& scores = findings.scores;
  Json all = Json::array();
  for (const LeadParts& found : findings.parts) {
    Json& json = all.emplace_back(Json{{"task", nullptr},
                                       {"budget_text", nullptr},
                                       {"block", nullptr},
                                       {"scorer", nullptr},
                                       {"protect", nullptr}});
    if (found.task) json["task"] = scores.tasks[*found.task].task;
    if (found.setting) {
      json["budget_text"] = scores.settings[*found.setting].budget_text;
      json["block"] = scores.settings[*found.setting].block;
    }
    if (found.scorer) json["scorer"] = scores.plan.values[Slot::kScorer][*found.scorer];
    if (found.protection) json["protect"] = scores.plan.values[Slot::kProtection][*found.protection];
    add_points(json, "lead", found.lead);
    add_points(json, "score_part", found.score);
    add_points(json, "protection_part", found.protection_part);
    add_points(json, "protection_share", found.share);
    add_points(json, "score_alone", found.score_alone);
    add_points(json, "score_protected", found.score_protected);
    add_points(json, "protection_alone", found.protection_alone);
    add_points(json, "protection_scored", found.protection_scored);
    add_points(json, "interaction", found.interaction);
  }
  return all;
}

}  // namespace

Json grid_json(const GridFindings& findings, const evaluation::Settings& settings,
               const std::vector<std::string>& bad_rows) {
  Json json{{"format", 1}, {"task", "grid"}};
  results::add_identity(json, settings.model);
  json["seed"] = settings.seed;
  json["grid"] = plan_json(findings.scores.plan);
  json["unit"] = "points: 100 times the task's score";
  json["interval"] = evaluation::bootstrap_words();
  json["correction"] = fmt::format(
      "adjusted_p: sign flips over examples, 10,000 resamples, step-down maximum over {} differences",
      findings.differences.size());
  json["answer"] = answer_text(findings);
  json["lead"] = parts_json(findings);
  json["differences"] = differences_json(findings);
  json["tasks"] = tasks_json(findings.scores);
  json["cells"] = cells_json(findings.scores);
  evaluation::add_bad_rows(json, bad_rows);
  return json;
}

}  // namespace keyscope::grid
