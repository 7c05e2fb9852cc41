#include "app/evaluation/cells.hpp"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"
#include "analysis/wilson.hpp"

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

std::int64_t Cell::budget_rows() const {
  if (results.empty()) return 0;
  double sum = 0;
  for (const ExampleResult* result : results) sum += static_cast<double>(result->budget);
  return static_cast<std::int64_t>(std::floor(sum / static_cast<double>(results.size()) + 0.5));
}

ScoreMean Cell::score(std::string_view name, Interval interval, std::uint64_t seed) const {
  std::vector<double> scores;
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

void add_score(Json& json, const std::string& name, const ScoreMean& mean) {
  json[name] = number(mean.mean);
  json[name + "_interval"] = {number(mean.low), number(mean.high)};
}

Json cell_json(const Cell& cell) {
  return {{"policy", cell.point.policy},
          {"budget", cell.budget_rows()},
          {"budget_text", cell.point.budget_text},
          {"block", cell.point.block},
          {"n", cell.results.size()}};
}

}  // namespace keyscope::evaluation
