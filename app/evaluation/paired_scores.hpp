#pragma once

// A score under one grid point, example by example, and beside the full cache.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/cells.hpp"
#include "app/evaluation/example_result.hpp"
#include "app/evaluation/settings.hpp"

namespace keyscope::evaluation {

// An evaluation's results as a table of examples and grid points.
class ScoreTable {
 public:
  //   results: as Evaluation has them
  ScoreTable(std::span<const ExampleResult> results, std::span<const GridPoint> grid)
      : results_(results), grid_(grid) {}

  std::span<const GridPoint> grid() const { return grid_; }
  std::size_t n_examples() const { return results_.size() / grid_.size(); }
  const ExampleResult& result(std::size_t example, std::size_t point) const {
    return results_[example * grid_.size() + point];
  }

  // The score of each example asked for, in their order.
  //   throws InvalidInput where a result has no such score
  std::vector<double> scores(std::string_view name, std::size_t point,
                             std::span<const std::size_t> examples) const;
  // What each has more than under the full cache of the same block.
  std::vector<double> differences(std::string_view name, std::size_t point,
                                  std::span<const std::size_t> examples) const;

  // The grid point of the full cache with this one's block.
  std::size_t reference(std::size_t point) const;

 private:
  std::span<const ExampleResult> results_;
  std::span<const GridPoint> grid_;
};

// Means of every n_each values: of a problem's samples, say.
//   values: a multiple of n_each
std::vector<double> means_of_each(std::span<const double> values, std::size_t n_each);

// The mean of values with its bootstrap interval, see Interval::kBootstrap; of several groups, that of their
// means, each resampled by itself.
ScoreMean bootstrap_score(std::span<const double> values, std::uint64_t seed);
ScoreMean bootstrap_score(std::span<const std::vector<double>> groups, std::uint64_t seed);

// What a report says of a grid point: policy, budget (rows), budget_text, block.
nlohmann::ordered_json point_json(const GridPoint& point, std::int64_t budget_rows);

// How these intervals are described where they are reported.
std::string_view bootstrap_words();

}  // namespace keyscope::evaluation
