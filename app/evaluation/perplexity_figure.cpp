#include "app/evaluation/perplexity_figure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/policy_look.hpp"

namespace keyscope::evaluation {
namespace {

using figures::Panel;

float middle(const PerplexitySet& set, std::int64_t bin) {
  return static_cast<float>(static_cast<double>(set.first_scored) +
                            static_cast<double>(set.bins.begin(bin) + set.bins.begin(bin + 1) - 1) / 2);
}

Panel empty_panel(const std::string& id, const std::string& title, const std::string& quantity) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.x = {"position in the window", "tokens"};
  panel.y = {quantity, ""};
  return panel;
}

void add_curve(Panel& panel, const PerplexityCell& cell, const std::string& policy, const PerplexitySet& set,
               figures::PolicyLooks::Look look, ScoreMean PerplexityPoints::*quantity) {
  figures::LineSeries line;
  figures::BandSeries band;
  line.label = line.id = policy;
  band.label = policy + ", 95 % interval over windows";
  band.id = policy + "_interval";
  line.colour = band.colour = look.colour;
  line.marker = look.marker;
  bool has_interval = true;
  for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin) {
    const ScoreMean& mean = cell.curve[static_cast<std::size_t>(bin)].*quantity;
    line.x.push_back(middle(set, bin));
    line.y.push_back(static_cast<float>(mean.mean));
    band.low.push_back(static_cast<float>(mean.low));
    band.high.push_back(static_cast<float>(mean.high));
    has_interval = has_interval && std::isfinite(mean.low);
  }
  band.x = line.x;
  panel.lines.push_back(std::move(line));
  if (has_interval) panel.bands.push_back(std::move(band));
}

// Budgets that were asked for with a block, in the grid's order; one without a name where nothing evicts.
std::vector<std::pair<std::int64_t, std::string>> combinations(std::span<const GridPoint> grid) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const GridPoint& point : grid) {
    const std::pair<std::int64_t, std::string> key(point.block, point.budget_text);
    const bool full_only = !point.evicts() && std::ranges::none_of(grid, &GridPoint::evicts);
    if ((point.evicts() || full_only) && std::ranges::find(found, key) == found.end()) found.push_back(key);
  }
  return found;
}

}  // namespace

figures::Figure perplexity_figure(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                                  const PerplexitySet& set, const std::string& caption) {
  figures::Figure figure;
  figure.name = "perplexity";
  figure.title = "Perplexity by position";
  figure.caption = caption;
  figure.columns = 2;
  for (const auto& [block, budget] : combinations(grid)) {
    const std::string where =
        budget.empty() ? fmt::format("B = {}", block) : fmt::format("N = {}, B = {}", budget, block);
    const std::string id = fmt::format("{}_{}", budget.empty() ? "full" : "N" + budget, block);
    Panel absolute = empty_panel("perplexity_" + id, where, "perplexity");
    Panel relative = empty_panel("ratio_" + id, where + ", to the full cache", "ratio of perplexities");
    figures::PolicyLooks looks;
    for (const PerplexityCell& cell : cells) {
      const GridPoint& point = grid[cell.point];
      if (point.block != block || (point.evicts() && point.budget_text != budget)) continue;
      const auto look = looks.next(point.spec.name);
      add_curve(absolute, cell, point.policy, set, look, &PerplexityPoints::perplexity);
      if (point.evicts()) add_curve(relative, cell, point.policy, set, look, &PerplexityPoints::ratio);
    }
    figure.panels.push_back(std::move(absolute));
    if (!relative.lines.empty()) figure.panels.push_back(std::move(relative));
  }
  return figure;
}

}  // namespace keyscope::evaluation
