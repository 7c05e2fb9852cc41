#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keyscope::analysis {

// Which rows of a cache stay and which go.
struct Selection {
  std::vector<std::int32_t> retained;  // row indices, ascending: time order
  std::vector<std::int32_t> evicted;   // row indices, ascending
  // Per evicted row: the lowest score among retained rows that were not forced, minus the row's score;
  // NaN where every retained row was forced.
  std::vector<float> margin;
};

// Keeps the forced rows and then the highest scores until `budget` rows are kept; ties go to the lower row.
//   scores, forced: (n_rows); forced marks at most `budget` rows; every score finite
//   throws InvalidInput otherwise
Selection select_rows(std::span<const double> scores, std::span<const std::uint8_t> forced,
                      std::int64_t budget);

// Marks the `n_recent` last rows, but never more than the budget or than there are.
void force_recent(std::int64_t n_recent, std::int64_t budget, std::span<std::uint8_t> forced);

// Of rows that are to be selected by them.
//   throws InvalidInput naming the first row whose score is not
void require_finite_scores(std::span<const double> scores);

}  // namespace keyscope::analysis
