#include "app/evaluation/task_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"
#include "base/interval_text.hpp"
#include "base/json.hpp"

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

std::string share_text(const ScoreMean& mean) { return mean_text(mean.mean, mean.low, mean.high, 3); }

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

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

std::string report_caption(const Settings& settings, std::size_t n_examples) {
  std::string budgets, blocks;
  for (const AskedBudget& budget : settings.budgets) budgets += (budgets.empty() ? "" : ", ") + budget.text;
  for (const std::int64_t block : settings.blocks)
    blocks += fmt::format("{}{}", blocks.empty() ? "" : ", ", block);
  return fmt::format("{}, {} examples, N = {}, B = {}.", settings.model.name, n_examples,
                     budgets.empty() ? "all" : budgets, blocks);
}

std::int64_t Cell::budget_rows() const {
  if (results.empty()) return 0;
  double sum = 0;
  for (const ExampleResult* result : results) sum += static_cast<double>(result->budget);
  return static_cast<std::int64_t>(std::floor(sum / static_cast<double>(results.size()) + 0.5));
}

ScoreMean Cell::score(std::string_view name, Interval interval, std::uint64_t seed) const {
  std::vector<double> scores;
  scores.reserve(results.size());
  for (const ExampleResult* result : results) scores.push_back(result->score(name));
  if (interval == Interval::kBootstrap) {
    const auto mean = analysis::bootstrap_mean(scores, {.seed = seed});
    return {mean.mean, mean.low, mean.high};
  }
  std::int64_t n_hits = 0;
  for (const double score : scores) {
    if (score != 0 && score != 1)
      throw InvalidInput(
          fmt::format("score \"{}\": found {}; Wilson's interval is of scores 0 and 1", name, score));
    n_hits += score == 1 ? 1 : 0;
  }
  const auto share = analysis::wilson_share(n_hits, std::ssize(scores));
  return {share.share, share.low, share.high};
}

std::vector<Cell> cells_of(std::span<const ExampleResult> results, std::span<const GridPoint> grid,
                           const std::function<bool(std::size_t example)>& wanted) {
  std::vector<Cell> cells;
  for (const GridPoint& point : grid) cells.push_back({point, {}});
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!wanted || wanted(i / grid.size())) cells[i % grid.size()].results.push_back(&results[i]);
  return cells;
}

std::string with_interval(const ScoreMean& mean, int decimals) {
  const int shown = interval_decimals(mean.low, mean.high, decimals);
  std::string text = fmt::format("{:.{}f}", mean.mean, shown);
  if (std::isfinite(mean.low))
    text += fmt::format(" ({:.{}f} to {:.{}f})", mean.low, shown, mean.high, shown);
  return text;
}

void add_score(Json& json, const std::string& name, const ScoreMean& mean) {
  json[name] = json_number(mean.mean);
  json[name + "_interval"] = {json_number(mean.low), json_number(mean.high)};
}

Json cell_json(const Cell& cell) {
  return {{"policy", cell.point.policy},
          {"budget", cell.budget_rows()},
          {"budget_text", cell.point.budget_text},
          {"block", cell.point.block},
          {"n", cell.results.size()}};
}

std::vector<double> ScoreTable::scores(std::string_view name, std::size_t point,
                                       std::span<const std::size_t> examples) const {
  std::vector<double> scores;
  for (const std::size_t example : examples) scores.push_back(result(example, point).score(name));
  return scores;
}

std::vector<double> ScoreTable::differences(std::string_view name, std::size_t point,
                                            std::span<const std::size_t> examples) const {
  std::vector<double> values = scores(name, point, examples);
  const std::vector<double> full = scores(name, reference(point), examples);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= full[i];
  return values;
}

std::size_t ScoreTable::reference(std::size_t point) const {
  const auto found = std::ranges::find_if(
      grid_, [&](const GridPoint& other) { return !other.evicts() && other.block == grid_[point].block; });
  if (found == grid_.end())
    throw InvalidInput(fmt::format("the grid has no full cache with a block of {}", grid_[point].block));
  return found - grid_.begin();
}

std::int64_t ScoreTable::mean_budget(std::size_t point, std::span<const std::size_t> examples) const {
  Cell cell{grid_[point], {}};
  for (const std::size_t example : examples) cell.results.push_back(&result(example, point));
  return cell.budget_rows();
}

std::vector<double> means_of_each(std::span<const double> values, std::size_t n_each) {
  if (n_each == 0 || values.size() % n_each != 0)
    throw InvalidInput(
        fmt::format("{} values in groups of {}: expected whole groups", values.size(), n_each));
  std::vector<double> means;
  for (std::size_t at = 0; at < values.size(); at += n_each) {
    const auto group = values.subspan(at, n_each);
    means.push_back(std::accumulate(group.begin(), group.end(), 0.0) / static_cast<double>(n_each));
  }
  return means;
}

ScoreMean bootstrap_score(std::span<const double> values, std::uint64_t seed) {
  const auto mean = analysis::bootstrap_mean(values, {.seed = seed});
  return {mean.mean, mean.low, mean.high};
}

ScoreMean bootstrap_score(std::span<const std::vector<double>> groups, std::uint64_t seed) {
  const auto mean = analysis::stratified_bootstrap_mean(groups, {.seed = seed});
  return {mean.mean, mean.low, mean.high};
}

namespace {

ScoreMean in_points(const ScoreMean& share) { return {100 * share.mean, 100 * share.low, 100 * share.high}; }

}  // namespace

ScorePoints score_points(const ScoreTable& table, std::size_t point,
                         std::span<const std::vector<std::size_t>> groups, std::uint64_t seed) {
  std::vector<std::vector<double>> scores, differences;
  ScorePoints points;
  for (const std::vector<std::size_t>& examples : groups) {
    scores.push_back(table.scores("score", point, examples));
    differences.push_back(table.differences("score", point, examples));
    points.n += std::ssize(examples);
  }
  points.score = in_points(bootstrap_score(scores, seed));
  points.difference = in_points(bootstrap_score(differences, seed));
  return points;
}

nlohmann::ordered_json points_json(const ScorePoints& points, bool evicts) {
  Json json{{"n", points.n}};
  add_score(json, "score", points.score);
  json["score"] = two_decimals(points.score.mean);
  if (evicts) add_score(json, "difference", points.difference);
  return json;
}

// By way of decimals, which are made of the number's exact value: scaled to be rounded to an integer, it
// would be rounded twice.
double two_decimals(double points) { return std::strtod(fmt::format("{:.2f}", points).c_str(), nullptr); }

nlohmann::ordered_json point_json(const GridPoint& point, std::int64_t budget_rows) {
  return {{"policy", point.policy},
          {"budget", budget_rows},
          {"budget_text", point.budget_text},
          {"block", point.block}};
}

std::string_view bootstrap_words() {
  return "95 %, percentile bootstrap over examples, 10,000 resamples; differences are paired";
}

nlohmann::ordered_json benchmark_json(const Settings& settings, const nlohmann::ordered_json& numbers,
                                      const std::vector<std::string>& bad_rows) {
  nlohmann::ordered_json json{{"format", 1}, {"task", settings.task}, {"settings", settings_json(settings)}};
  json["interval"] = bootstrap_words();
  json.update(numbers);
  add_bad_rows(json, bad_rows);
  return json;
}

nlohmann::ordered_json cost_json(const Evaluation& evaluation) {
  const capture::CompletionCost& cost = evaluation.cost;
  return {{"tokens_asked", cost.tokens_asked},
          {"tokens_run", cost.tokens_run},
          {"tokens_shared", cost.tokens_asked - cost.tokens_run},
          {"seconds", cost.seconds},
          {"results_run", std::ssize(evaluation.results) - evaluation.n_earlier},
          {"results_earlier", evaluation.n_earlier}};
}

void add_bad_rows(nlohmann::ordered_json& json, const std::vector<std::string>& bad_rows) {
  json["bad_rows"] = bad_rows.size();
  json["skipped_rows"] = bad_rows;
}

}  // namespace keyscope::evaluation
