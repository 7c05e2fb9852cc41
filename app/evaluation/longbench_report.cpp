#include "app/evaluation/longbench_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/text_scores.hpp"
#include "base/interval_text.hpp"

namespace keyscope::evaluation {

namespace {

using Json = nlohmann::ordered_json;
using Indices = std::vector<std::size_t>;

Indices where(std::size_t n, const std::function<bool(std::size_t)>& wanted) {
  Indices indices;
  for (std::size_t i = 0; i < n; ++i)
    if (wanted(i)) indices.push_back(i);
  return indices;
}

LongBenchCell cell_of(const ScoreTable& table, std::span<const LongBenchRow> rows, const LongBenchTask& task,
                      std::size_t point, std::uint64_t seed) {
  const Indices all = where(rows.size(), [&](std::size_t i) { return rows[i].task == &task; });
  LongBenchCell cell{
      &task, point, table.mean_budget(point, all), score_points(table, point, {{all}}, seed), {}};
  cell.points.score.mean = task_points(table.scores("score", point, all));
  for (const char* bin : {"0-4k", "4-8k", "8k+"}) {
    const Indices inside = where(rows.size(), [&](std::size_t i) {
      return rows[i].task == &task && rows[i].length && length_bin(*rows[i].length) == bin;
    });
    if (!inside.empty()) cell.by_length.emplace_back(bin, score_points(table, point, {{inside}}, seed));
  }
  return cell;
}

LongBenchTotal total_of(const ScoreTable& table, std::span<const LongBenchRow> rows, std::size_t point,
                        std::uint64_t seed) {
  std::vector<Indices> tasks;
  std::vector<std::pair<std::string, std::vector<Indices>>> categories;
  for (const LongBenchTask& task : longbench_tasks()) {
    Indices examples = where(rows.size(), [&](std::size_t i) { return rows[i].task == &task; });
    if (examples.empty()) continue;
    if (categories.empty() || categories.back().first != task.category)
      categories.emplace_back(task.category, std::vector<Indices>());
    categories.back().second.push_back(examples);
    tasks.push_back(std::move(examples));
  }
  const Indices all = where(rows.size(), [](std::size_t) { return true; });
  LongBenchTotal total{point, table.mean_budget(point, all), score_points(table, point, tasks, seed), {}};
  for (const auto& [category, members] : categories)
    total.categories.emplace_back(category, score_points(table, point, members, seed));
  return total;
}

Json named_json(const std::vector<std::pair<std::string, ScorePoints>>& named, bool evicts) {
  Json json = Json::object();
  for (const auto& [name, points] : named) json[name] = points_json(points, evicts);
  return json;
}

}  // namespace

LongBenchReport longbench_report(const ScoreTable& table, std::span<const LongBenchRow> rows,
                                 std::uint64_t seed) {
  LongBenchReport report;
  for (const LongBenchTask& task : longbench_tasks()) {
    if (std::ranges::find(rows, &task, &LongBenchRow::task) == rows.end()) continue;
    for (std::size_t point = 0; point < table.grid().size(); ++point)
      report.cells.push_back(cell_of(table, rows, task, point, seed));
  }
  for (std::size_t point = 0; point < table.grid().size(); ++point)
    report.totals.push_back(total_of(table, rows, point, seed));
  return report;
}

Json longbench_json(const LongBenchReport& report, std::span<const GridPoint> grid) {
  Json json{{"cells", Json::array()}, {"totals", Json::array()}};
  for (const LongBenchCell& cell : report.cells) {
    const bool evicts = grid[cell.point].evicts();
    Json row = point_json(grid[cell.point], cell.budget_rows);
    row["task"] = cell.task->name;
    row["category"] = cell.task->category;
    row.update(points_json(cell.points, evicts));
    row["by_length"] = named_json(cell.by_length, evicts);
    json["cells"].push_back(std::move(row));
  }
  for (const LongBenchTotal& total : report.totals) {
    const bool evicts = grid[total.point].evicts();
    Json row = point_json(grid[total.point], total.budget_rows);
    row.update(points_json(total.points, evicts));
    row["categories"] = named_json(total.categories, evicts);
    json["totals"].push_back(std::move(row));
  }
  return json;
}

std::string longbench_table(const LongBenchReport& report, std::span<const GridPoint> grid) {
  std::string text = fmt::format("{:<22} {:>8} {:>6}", "policy", "budget", "block");
  for (const LongBenchCell& cell : report.cells)
    if (cell.point == 0)
      text += fmt::format(" {:>{}}", cell.task->name, std::max<std::size_t>(6, cell.task->name.size()));
  text += fmt::format(" {:>7}  {}\n", "mean", "difference to the full cache");
  for (const LongBenchTotal& total : report.totals) {
    const GridPoint& point = grid[total.point];
    text += fmt::format("{:<22} {:>8} {:>6}", point.policy, point.evicts() ? point.budget_text : "-",
                        point.block);
    for (const LongBenchCell& cell : report.cells)
      if (cell.point == total.point)
        text += fmt::format(" {:>{}.2f}", cell.points.score.mean,
                            std::max<std::size_t>(6, cell.task->name.size()));
    text += fmt::format(" {:>7.2f}", total.points.score.mean);
    const ScoreMean& difference = total.points.difference;
    const int decimals = interval_decimals(difference.low, difference.high, 2);
    if (point.evicts()) text += fmt::format("  {:+.{}f}", difference.mean, decimals);
    if (point.evicts() && std::isfinite(difference.low))
      text += fmt::format(" ({:+.{}f} to {:+.{}f})", difference.low, decimals, difference.high, decimals);
    text += "\n";
  }
  return text;
}

namespace {

std::string_view first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text.substr(0, text.find('\n'));
}

double score(LongBenchMetric metric, std::string_view prediction, std::string_view answer,
             std::span<const std::string> classes) {
  switch (metric) {
    case LongBenchMetric::kTokenF1:
      return token_f1(prediction, answer);
    case LongBenchMetric::kRougeL:
      return rouge_l(prediction, answer);
    case LongBenchMetric::kClassShare:
      return class_share(prediction, answer, classes);
    case LongBenchMetric::kNumberShare:
      return number_share(prediction, answer);
    case LongBenchMetric::kParagraphShare:
      return paragraph_share(prediction, answer);
    case LongBenchMetric::kCodeSimilarity:
      break;
  }
  return code_similarity(prediction, answer);
}

}  // namespace

double longbench_score(const LongBenchTask& task, std::string_view prediction,
                       std::span<const std::string> answers, std::span<const std::string> classes) {
  if (task.first_line_only) prediction = first_line(prediction);
  double best = 0;
  for (const std::string& answer : answers)
    best = std::max(best, score(task.metric, prediction, answer, classes));
  return best;
}

double task_points(std::span<const double> scores) {
  return 100 * std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
}

std::string_view length_bin(std::int64_t n_words) {
  if (n_words < 4000) return "0-4k";
  return n_words < 8000 ? "4-8k" : "8k+";
}

}  // namespace keyscope::evaluation
