#include "app/evaluation/paired_scores.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"
#include "analysis/stratified_bootstrap.hpp"

namespace keyscope::evaluation {

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
  return static_cast<std::size_t>(found - grid_.begin());
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

nlohmann::ordered_json point_json(const GridPoint& point, std::int64_t budget_rows) {
  return {{"policy", point.policy},
          {"budget", budget_rows},
          {"budget_text", point.budget_text},
          {"block", point.block}};
}

std::string_view bootstrap_words() {
  return "95 %, percentile bootstrap over examples, 10,000 resamples; differences are paired";
}

}  // namespace keyscope::evaluation
