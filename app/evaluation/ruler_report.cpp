#include "app/evaluation/ruler_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {

namespace {

using ExampleIndices = std::vector<std::size_t>;

// Examples by task, in the benchmark's order, and length.
using ByCell = std::map<std::pair<const RulerTask*, std::int64_t>, ExampleIndices>;

ByCell by_cell(std::span<const Example> examples) {
  ByCell cells;
  for (std::size_t i = 0; i < examples.size(); ++i)
    cells[{find_ruler_task(examples[i].about["task"].get<std::string>()),
           examples[i].about["length"].get<std::int64_t>()}]
        .push_back(i);
  return cells;
}

RulerTotal total_over(const ScoreTable& table, const ByCell& cells, std::optional<std::int64_t> length,
                      std::size_t point, std::uint64_t seed) {
  std::vector<ExampleIndices> groups;
  ExampleIndices all;
  for (const auto& [key, examples] : cells)
    if (!length || key.second == *length) {
      groups.push_back(examples);
      all.insert(all.end(), examples.begin(), examples.end());
    }
  return {length, point, table.mean_budget(point, all), score_points(table, point, groups, seed)};
}

}  // namespace

std::vector<const RulerTask*> RulerReport::tasks() const {
  std::vector<const RulerTask*> asked;
  for (const RulerCell& cell : cells)
    if (asked.empty() || asked.back() != cell.task) asked.push_back(cell.task);
  return asked;
}

std::vector<std::int64_t> RulerReport::lengths() const {
  std::vector<std::int64_t> asked;
  for (const RulerTotal& total : totals)
    if (total.length && (asked.empty() || asked.back() != *total.length)) asked.push_back(*total.length);
  return asked;
}

const RulerCell* RulerReport::cell(const RulerTask& task, std::int64_t length, std::size_t point) const {
  const auto found = std::ranges::find_if(cells, [&](const RulerCell& cell) {
    return cell.task == &task && cell.length == length && cell.point == point;
  });
  return found == cells.end() ? nullptr : &*found;
}

const RulerTotal& RulerReport::total(std::optional<std::int64_t> length, std::size_t point) const {
  return *std::ranges::find_if(
      totals, [&](const RulerTotal& total) { return total.length == length && total.point == point; });
}

RulerReport ruler_report(const ScoreTable& table, std::span<const Example> examples, std::uint64_t seed) {
  RulerReport report;
  const ByCell cells = by_cell(examples);
  std::vector<std::optional<std::int64_t>> lengths{std::nullopt};
  for (const auto& [key, asked] : cells) {
    lengths.emplace_back(key.second);
    for (std::size_t point = 0; point < table.grid().size(); ++point)
      report.cells.push_back({key.first, key.second, point, table.mean_budget(point, asked),
                              score_points(table, point, {{asked}}, seed)});
  }
  std::ranges::sort(lengths);
  lengths.erase(std::ranges::unique(lengths).begin(), lengths.end());
  for (const auto& length : lengths)
    for (std::size_t point = 0; point < table.grid().size(); ++point)
      report.totals.push_back(total_over(table, cells, length, point, seed));
  return report;
}

nlohmann::ordered_json ruler_json(const RulerReport& report, std::span<const GridPoint> grid) {
  nlohmann::ordered_json json{{"cells", nlohmann::ordered_json::array()},
                              {"totals", nlohmann::ordered_json::array()}};
  for (const RulerCell& cell : report.cells) {
    auto row = point_json(grid[cell.point], cell.budget_rows);
    row["task"] = cell.task->name;
    row["length"] = cell.length;
    row.update(points_json(cell.points, grid[cell.point].evicts()));
    json["cells"].push_back(std::move(row));
  }
  for (const RulerTotal& total : report.totals) {
    auto row = point_json(grid[total.point], total.budget_rows);
    row["length"] = json_number(total.length);
    row.update(points_json(total.points, grid[total.point].evicts()));
    json["totals"].push_back(std::move(row));
  }
  return json;
}

namespace {

std::string table_line(const RulerReport& report, const GridPoint& grid_point, std::size_t point,
                       std::optional<std::int64_t> length, std::size_t width) {
  std::string line = fmt::format("{:<{}} {:>6} {:>6} {:>6}", grid_point.policy, width,
                                 grid_point.evicts() ? grid_point.budget_text : "–", grid_point.block,
                                 length ? fmt::format("{}", *length) : "all");
  for (const RulerTask* task : report.tasks()) {
    const RulerCell* const cell = length ? report.cell(*task, *length, point) : nullptr;
    const auto room = std::max<std::size_t>(6, task->short_name.size());
    line += cell == nullptr ? fmt::format(" {:>{}}", length ? "–" : "", room)
                            : fmt::format(" {:>{}.2f}", cell->points.score.mean, room);
  }
  const ScorePoints& mean = report.total(length, point).points;
  line += fmt::format(" {:>6.2f}", mean.score.mean);
  if (grid_point.evicts()) line += fmt::format("  {:+.2f}", mean.difference.mean);
  if (grid_point.evicts() && std::isfinite(mean.difference.low))
    line += fmt::format(" ({:+.2f} to {:+.2f})", mean.difference.low, mean.difference.high);
  return line + "\n";
}

}  // namespace

std::string ruler_table(const RulerReport& report, std::span<const GridPoint> grid) {
  std::size_t width = 6;
  for (const GridPoint& point : grid) width = std::max(width, point.policy.size());
  std::string text = fmt::format("{:<{}} {:>6} {:>6} {:>6}", "policy", width, "budget", "block", "length");
  for (const RulerTask* task : report.tasks())
    text += fmt::format(" {:>{}}", task->short_name, std::max<std::size_t>(6, task->short_name.size()));
  text += fmt::format(" {:>6}  {}\n", "mean", "difference to the full cache");
  std::vector<std::optional<std::int64_t>> lengths;
  for (const std::int64_t length : report.lengths()) lengths.emplace_back(length);
  if (lengths.size() > 1) lengths.emplace_back(std::nullopt);
  for (const auto& length : lengths)
    for (std::size_t point = 0; point < grid.size(); ++point)
      text += table_line(report, grid[point], point, length, width);
  return text;
}

namespace {

using figures::Figure;
using figures::Panel;

constexpr float kCurveStepPt = 5;  // between the policies at one length
constexpr std::size_t kMostLengthsAcross = 4, kNumberedColumns = 8;

// "4K" of 4,096; lengths that are no thousands as they are.
std::string length_name(std::int64_t length) {
  return length % 1024 == 0 ? fmt::format("{}K", length / 1024) : fmt::format("{}", length);
}

// "multikey_2" of niah_multikey_2.
std::string row_name(const RulerTask& task) {
  constexpr std::string_view kNeedleTask = "niah_";
  return std::string(task.name.substr(task.name.starts_with(kNeedleTask) ? kNeedleTask.size() : 0));
}

Figure curves(const RulerReport& report, const std::vector<GridPoint>& grid,
              const std::vector<std::string>& labels) {
  Panel panel;
  panel.id = "score";
  panel.x = {"length", "tokens"};
  panel.y = {"score, mean over tasks", "%"};
  const auto lengths = report.lengths();
  for (const std::int64_t length : lengths) panel.x.categories.push_back(length_name(length));
  figures::PolicyLooks looks;
  for (std::size_t point = 0; point < grid.size(); ++point) {
    const float dodge = kCurveStepPt * (static_cast<float>(point) - static_cast<float>(grid.size() - 1) / 2);
    figures::MeanCurve curve(labels[point], looks.next(grid[point].spec.name), dodge);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const ScoreMean& score = report.total(lengths[i], point).points.score;
      curve.add(static_cast<double>(i), score.low, score.mean, score.high);
    }
    std::move(curve).put_into(panel);
  }
  Figure figure;
  figure.name = "ruler";
  figure.title = "RULER: score by length";
  figure.panels.push_back(std::move(panel));
  return figure;
}

Panel heatmap_panel(const RulerReport& report, std::vector<std::string> columns,
                    const std::function<const RulerCell*(const RulerTask&, std::size_t column)>& cell_at,
                    bool difference) {
  const auto tasks = report.tasks();
  figures::Heatmap heatmap;
  heatmap.id = difference ? "score_difference" : "score";
  heatmap.long_name = difference ? "score less the full cache's" : "score";
  heatmap.units = "%";
  heatmap.colour_map = difference ? figures::ColourMap::kDiverging : figures::ColourMap::kViridis;
  heatmap.low = difference ? -100 : 0;
  heatmap.high = 100;
  heatmap.decimals = columns.size() <= kNumberedColumns ? 0 : -1;
  heatmap.values.resize(static_cast<Eigen::Index>(tasks.size()), static_cast<Eigen::Index>(columns.size()));
  for (std::size_t row = 0; row < tasks.size(); ++row)
    for (std::size_t column = 0; column < columns.size(); ++column) {
      const RulerCell* const cell = cell_at(*tasks[row], column);
      double value = std::numeric_limits<double>::quiet_NaN();
      if (cell != nullptr)
        value = difference ? cell->points.difference.mean : two_decimals(cell->points.score.mean);
      heatmap.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
          static_cast<float>(value);
    }
  heatmap.x_first = heatmap.y_first = -0.5;  // a cell's middle is its category's number
  heatmap.x_end = static_cast<double>(columns.size()) - 0.5;
  heatmap.y_end = static_cast<double>(tasks.size()) - 0.5;
  Panel panel;
  panel.x.categories = std::move(columns);
  panel.y.label = "task";
  for (const RulerTask* task : tasks) panel.y.categories.push_back(row_name(*task));
  panel.legend = false;
  panel.heatmap = std::move(heatmap);
  return panel;
}

// Tasks by lengths for each of these grid points, or of one length by grid points.
std::vector<Panel> heatmaps(const RulerReport& report, const std::vector<std::string>& labels,
                            const std::vector<std::size_t>& points, bool difference) {
  const auto lengths = report.lengths();
  std::vector<Panel> panels;
  if (lengths.size() == 1) {
    std::vector<std::string> columns;
    for (const std::size_t point : points) columns.push_back(labels[point]);
    panels.push_back(heatmap_panel(
        report, std::move(columns),
        [&](const RulerTask& task, std::size_t column) {
          return report.cell(task, lengths.front(), points[column]);
        },
        difference));
    panels.back().id = "length";
    panels.back().title = length_name(lengths.front()) + " tokens";
    panels.back().x.label = "policy";
    return panels;
  }
  std::vector<std::string> columns;
  for (const std::int64_t length : lengths) columns.push_back(length_name(length));
  for (const std::size_t point : points) {
    panels.push_back(heatmap_panel(
        report, columns,
        [&](const RulerTask& task, std::size_t column) { return report.cell(task, lengths[column], point); },
        difference));
    panels.back().id = fmt::format("point_{}", point);
    panels.back().title = labels[point];
    panels.back().x.label = "length";
    panels.back().x.units = "tokens";
  }
  return panels;
}

}  // namespace

std::vector<Figure> ruler_figures(const RulerReport& report, const std::vector<GridPoint>& grid,
                                  const std::string& caption) {
  const auto labels = point_labels(grid);
  std::vector<std::size_t> all, evicting;
  for (std::size_t point = 0; point < grid.size(); ++point) {
    all.push_back(point);
    if (grid[point].evicts()) evicting.push_back(point);
  }
  std::vector<Figure> made{curves(report, grid, labels)};
  Figure& tasks = made.emplace_back();
  tasks.name = "ruler-tasks";
  tasks.title = "RULER: score by task";
  tasks.panels = heatmaps(report, labels, all, false);
  if (!evicting.empty()) {
    Figure& difference = made.emplace_back();
    difference.name = "ruler-difference";
    difference.title = "RULER: score less that with the full cache, by task";
    difference.panels = heatmaps(report, labels, evicting, true);
  }
  for (Figure& figure : made) {
    figure.caption = caption;
    figure.shared_ranges = figure.panels.size() > 1;
    figure.columns = static_cast<int>(
        std::min<std::size_t>(figure.panels.size(), report.lengths().size() > kMostLengthsAcross ? 2 : 3));
  }
  return made;
}

}  // namespace keyscope::evaluation
