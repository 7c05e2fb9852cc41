#include "app/evaluation/perplexity_report.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;

ScoreMean raised(const ScoreMean& mean) {
  return {std::exp(mean.mean), std::exp(mean.low), std::exp(mean.high)};
}

ScoreMean scaled(const ScoreMean& mean, double by) { return {by * mean.mean, by * mean.low, by * mean.high}; }

PerplexityPoints points_of(const ScoreTable& table, const std::string& score, std::size_t point,
                           std::span<const std::size_t> windows, std::uint64_t seed) {
  PerplexityPoints points;
  points.nll_nats = bootstrap_score(table.scores(score, point, windows), seed);
  points.perplexity = raised(points.nll_nats);
  points.ratio = raised(bootstrap_score(table.differences(score, point, windows), seed));
  return points;
}

Json points_json(const PerplexityPoints& points, bool evicts) {
  Json json = Json::object();
  add_score(json, "nll_nats", points.nll_nats);
  add_score(json, "perplexity", points.perplexity);
  if (evicts) add_score(json, "ratio", points.ratio);
  return json;
}

Json curve_json(const PerplexityCell& cell, const PerplexitySet& set, bool evicts) {
  Json curve = Json::array();
  for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin) {
    Json entry{{"first", set.first_scored + set.bins.begin(bin)},
               {"last", set.first_scored + set.bins.begin(bin + 1) - 1}};
    entry.update(points_json(cell.curve[static_cast<std::size_t>(bin)], evicts));
    curve.push_back(std::move(entry));
  }
  return curve;
}

std::string with_interval(const ScoreMean& mean, int decimals) {
  std::string text = fmt::format("{:.{}f}", mean.mean, decimals);
  if (std::isfinite(mean.low))
    text += fmt::format(" ({:.{}f} to {:.{}f})", mean.low, decimals, mean.high, decimals);
  return text;
}

}  // namespace

std::vector<PerplexityCell> perplexity_report(const ScoreTable& table, const PerplexitySet& set,
                                              std::uint64_t seed) {
  std::vector<std::size_t> windows(table.n_examples());
  std::iota(windows.begin(), windows.end(), 0);
  const double tokens_per_byte = static_cast<double>(set.n_scored) / static_cast<double>(set.n_bytes);
  std::vector<PerplexityCell> cells;
  for (std::size_t point = 0; point < table.grid().size(); ++point) {
    PerplexityCell cell;
    cell.point = point;
    cell.budget_rows = table.result(0, point).budget;
    cell.all = points_of(table, "nll_nats", point, windows, seed);
    cell.bits_per_byte = scaled(cell.all.nll_nats, tokens_per_byte / std::numbers::ln2);
    for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin)
      cell.curve.push_back(points_of(table, bin_score(set, bin), point, windows, seed));
    cells.push_back(std::move(cell));
  }
  return cells;
}

Json perplexity_json(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                     const PerplexitySet& set) {
  Json json{{"windows", set.examples.size()},
            {"tokens_scored", set.n_scored},
            {"bytes_scored", set.n_bytes},
            {"tokens_left_out", set.n_left_out},
            {"cells", Json::array()}};
  for (const PerplexityCell& cell : cells) {
    const bool evicts = grid[cell.point].evicts();
    Json row = point_json(grid[cell.point], cell.budget_rows);
    row["n"] = set.examples.size();
    row.update(points_json(cell.all, evicts));
    add_score(row, "bits_per_byte", cell.bits_per_byte);
    row["curve"] = curve_json(cell, set, evicts);
    json["cells"].push_back(std::move(row));
  }
  return json;
}

std::string perplexity_table(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid) {
  std::string text = fmt::format("{:<22} {:>8} {:>6}  {:<28} {:<14} {}\n", "policy", "budget", "block",
                                 "perplexity", "bits per byte", "ratio to the full cache");
  for (const PerplexityCell& cell : cells) {
    const GridPoint& point = grid[cell.point];
    text += fmt::format("{:<22} {:>8} {:>6}  {:<28} {:<14.4f} {}\n", point.policy,
                        point.evicts() ? point.budget_text : "-", point.block,
                        with_interval(cell.all.perplexity, 2), cell.bits_per_byte.mean,
                        point.evicts() ? with_interval(cell.all.ratio, 4) : "1");
  }
  return text;
}

}  // namespace keyscope::evaluation
