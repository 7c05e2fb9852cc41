#include "app/evaluation/task_report.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "app/evaluation/benchmark_json.hpp"

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;

bool holds(const Json& about, const Json& wanted) {
  for (auto field = wanted.begin(); field != wanted.end(); ++field)
    if (!about.contains(field.key()) || about[field.key()] != field.value()) return false;
  return true;
}

Json scored(const TaskReport& report, const Cell& cell, Json json) {
  json.update(cell_json(cell));
  double rows = 0;
  for (const ExampleResult* result : cell.results) rows += result->rows_kept;
  if (!cell.results.empty()) json["rows_kept"] = rows / static_cast<double>(cell.results.size());
  for (const ReportedScore& score : report.scores)
    add_score(json, score.name, cell.score(score.name, score.interval, report.settings.seed));
  return json;
}

std::string share_text(const ScoreMean& mean) {
  if (!std::isfinite(mean.low)) return fmt::format("{:.3f}", mean.mean);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", mean.mean, mean.low, mean.high);
}

std::string plain(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string interval_sentence(const TaskReport& report) {
  std::string text;
  for (const ReportedScore& score : report.scores)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", score.name,
                        score.interval == Interval::kWilson
                            ? "Wilson"
                            : fmt::format("bootstrap over examples, seed {}", report.settings.seed));
  return text;
}

}  // namespace

std::vector<Cell> cells_where(const TaskReport& report, const Json& about) {
  const auto grid = grid_of(report.settings);
  return cells_of(report.evaluation.results, grid,
                  [&](std::size_t example) { return holds(report.examples[example].about, about); });
}

Json report_json(const TaskReport& report, const std::vector<Json>& by) {
  Json json{{"settings", settings_json(report.settings)}};
  json["intervals"] = "95 %; " + interval_sentence(report);
  json["cells"] = Json::array();
  for (const Json& about : by)
    for (const Cell& cell : cells_where(report, about)) json["cells"].push_back(scored(report, cell, about));
  json["totals"] = Json::array();
  for (const Cell& cell : cells_where(report, Json::object()))
    json["totals"].push_back(scored(report, cell, Json::object()));
  const capture::CompletionCost& cost = report.evaluation.cost;
  json["cost"] = {{"tokens_asked", cost.tokens_asked},
                  {"tokens_run", cost.tokens_run},
                  {"tokens_shared", cost.tokens_asked - cost.tokens_run},
                  {"seconds", cost.seconds},
                  {"results_run", std::ssize(report.evaluation.results) - report.evaluation.n_earlier},
                  {"results_earlier", report.evaluation.n_earlier}};
  add_bad_rows(json, report.bad_rows);
  return json;
}

std::string report_table(const TaskReport& report) {
  const auto cells = cells_where(report, Json::object());
  std::size_t width = 6;
  for (const Cell& cell : cells) width = std::max(width, cell.point.policy.size());
  std::string table = fmt::format("{:<{}}  {:>6}  {:>5}  {:>5}", "policy", width, "budget", "block", "n");
  for (const ReportedScore& score : report.scores) table += fmt::format("  {:<20}", score.name);
  table += fmt::format("  {} by {}:", report.scores.front().name, report.axis);
  std::vector<std::vector<Cell>> groups;
  for (const Json& value : report.groups) {
    groups.push_back(cells_where(report, {{report.axis, value}}));
    table += fmt::format(" {:>6}", plain(value));
  }
  table += '\n';
  const std::size_t gap = report.scores.front().name.size() + report.axis.size() + 7;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const GridPoint& point = cells[i].point;
    table += fmt::format("{:<{}}  {:>6}  {:>5}  {:>5}", point.policy, width,
                         point.evicts() ? point.budget_text : "–", point.block, cells[i].results.size());
    for (const ReportedScore& score : report.scores)
      table += fmt::format("  {:<20}",
                           share_text(cells[i].score(score.name, score.interval, report.settings.seed)));
    table += std::string(gap, ' ');
    for (const auto& group : groups)
      table += fmt::format(" {:>6.3f}", group[i]
                                            .score(report.scores.front().name, report.scores.front().interval,
                                                   report.settings.seed)
                                            .mean);
    table += '\n';
  }
  return table + fmt::format("95 % intervals: {}.\n", interval_sentence(report));
}

std::vector<std::string> point_labels(const std::vector<GridPoint>& grid) {
  std::set<std::string> budgets;
  std::set<std::int64_t> blocks;
  for (const GridPoint& point : grid) {
    if (point.evicts()) budgets.insert(point.budget_text);
    blocks.insert(point.block);
  }
  std::vector<std::string> labels;
  for (const GridPoint& point : grid) {
    std::string label = point.policy;
    if (point.evicts() && budgets.size() > 1) label += " N=" + point.budget_text;
    if (blocks.size() > 1) label += fmt::format(" B={}", point.block);
    labels.push_back(std::move(label));
  }
  return labels;
}

std::string report_caption(const TaskReport& report) {
  std::string budgets, blocks;
  for (const AskedBudget& budget : report.settings.budgets)
    budgets += (budgets.empty() ? "" : ", ") + budget.text;
  for (const std::int64_t block : report.settings.blocks)
    blocks += fmt::format("{}{}", blocks.empty() ? "" : ", ", block);
  return fmt::format("{}, {} examples, N = {}, B = {}.", report.settings.model.name, report.examples.size(),
                     budgets.empty() ? "all" : budgets, blocks);
}

}  // namespace keyscope::evaluation
