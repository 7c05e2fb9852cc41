#include "app/evaluation/math_report.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;
using Indices = std::vector<std::size_t>;  // of problems

// One evaluation's samples, problem by problem.
class Problems {
 public:
  Problems(const ScoreTable& table, std::size_t n_samples, std::uint64_t seed)
      : table_(table), n_samples_(n_samples), seed_(seed) {}

  MathShares shares(std::size_t point, const Indices& problems) const {
    const Indices samples = samples_of(problems);
    const auto mean = [&](const std::vector<double>& values) {
      return bootstrap_score(means_of_each(values, n_samples_), seed_);
    };
    MathShares shares;
    shares.exact = mean(table_.scores("exact", point, samples));
    shares.flexible = mean(table_.scores("flexible", point, samples));
    shares.exact_difference = mean(table_.differences("exact", point, samples));
    shares.flexible_difference = mean(table_.differences("flexible", point, samples));
    shares.n = std::ssize(problems);
    return shares;
  }

  double mean_generated(std::size_t point, const Indices& problems) const {
    const auto tokens = table_.scores("generated", point, samples_of(problems));
    return std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
  }

  Indices over_budget(std::size_t point, const Indices& problems) const {
    Indices longer;
    for (const std::size_t problem : problems) {
      const ExampleResult& first = table_.result(problem * n_samples_, point);
      const double all =
          static_cast<double>(first.n_prompt) + mean_generated(table_.reference(point), {problem});
      if (table_.grid()[point].evicts() && all > static_cast<double>(first.budget)) longer.push_back(problem);
    }
    return longer;
  }

  std::int64_t budget_rows(std::size_t point, const Indices& problems) const {
    Cell cell{table_.grid()[point], {}};
    for (const std::size_t sample : samples_of(problems))
      cell.results.push_back(&table_.result(sample, point));
    return cell.budget_rows();
  }

 private:
  Indices samples_of(const Indices& problems) const {
    Indices samples;
    for (const std::size_t problem : problems)
      for (std::size_t sample = 0; sample < n_samples_; ++sample)
        samples.push_back(problem * n_samples_ + sample);
    return samples;
  }

  const ScoreTable& table_;
  std::size_t n_samples_;
  std::uint64_t seed_;
};

std::vector<std::pair<std::string, MathShares>> shares_by(const Problems& problems, std::size_t point,
                                                          const std::map<std::string, Indices>& groups) {
  std::vector<std::pair<std::string, MathShares>> shares;
  for (const auto& [name, members] : groups) shares.emplace_back(name, problems.shares(point, members));
  return shares;
}

Json shares_json(const MathShares& shares, bool evicts) {
  Json json{{"n", shares.n}};
  add_score(json, "exact", shares.exact);
  add_score(json, "flexible", shares.flexible);
  if (!evicts) return json;
  add_score(json, "exact_difference", shares.exact_difference);
  add_score(json, "flexible_difference", shares.flexible_difference);
  return json;
}

Json named_json(const std::vector<std::pair<std::string, MathShares>>& named, bool evicts) {
  Json json = Json::object();
  for (const auto& [name, shares] : named) json[name] = shares_json(shares, evicts);
  return json;
}

std::string with_interval(const ScoreMean& mean) {
  std::string text = fmt::format("{:.3f}", mean.mean);
  if (std::isfinite(mean.low)) text += fmt::format(" ({:.3f} to {:.3f})", mean.low, mean.high);
  return text;
}

}  // namespace

std::vector<MathCell> math_report(const ScoreTable& table, std::span<const MathRow> rows,
                                  std::size_t n_samples, std::uint64_t seed) {
  const Problems problems(table, n_samples, seed);
  Indices all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  std::map<std::string, Indices> levels, subjects;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].level) levels[fmt::format("{}", *rows[i].level)].push_back(i);
    if (!rows[i].subject.empty()) subjects[rows[i].subject].push_back(i);
  }
  std::vector<MathCell> cells;
  for (std::size_t point = 0; point < table.grid().size(); ++point)
    cells.push_back({point, problems.budget_rows(point, all), problems.shares(point, all),
                     problems.mean_generated(point, all),
                     problems.shares(point, problems.over_budget(point, all)),
                     shares_by(problems, point, levels), shares_by(problems, point, subjects)});
  return cells;
}

Json math_json(std::span<const MathCell> cells, std::span<const GridPoint> grid) {
  Json json{{"cells", Json::array()}};
  for (const MathCell& cell : cells) {
    const GridPoint& point = grid[cell.point];
    Json row = point_json(point, cell.budget_rows);
    row.update(shares_json(cell.all, point.evicts()));
    row["generated"] = cell.generated;
    if (point.evicts()) row["over_budget"] = shares_json(cell.over_budget, true);
    row["by_level"] = named_json(cell.by_level, point.evicts());
    row["by_subject"] = named_json(cell.by_subject, point.evicts());
    json["cells"].push_back(std::move(row));
  }
  return json;
}

std::string math_table(std::span<const MathCell> cells, std::span<const GridPoint> grid) {
  std::string text = fmt::format("{:<22} {:>8} {:>6} {:>9}  {:<24}  {:<24}\n", "policy", "budget", "block",
                                 "generated", "flexible", "exact");
  for (const MathCell& cell : cells) {
    const GridPoint& point = grid[cell.point];
    text += fmt::format("{:<22} {:>8} {:>6} {:>9.0f}  {:<24}  {}\n", point.policy,
                        point.evicts() ? point.budget_text : "-", point.block, cell.generated,
                        with_interval(cell.all.flexible), with_interval(cell.all.exact));
  }
  return text;
}

}  // namespace keyscope::evaluation
