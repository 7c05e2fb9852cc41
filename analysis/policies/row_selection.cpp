#include "analysis/policies/row_selection.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

void check_request(std::span<const double> scores, std::span<const std::uint8_t> forced,
                   std::int64_t budget) {
  if (forced.size() != scores.size())
    throw InvalidInput(fmt::format("selection of rows: {} scores, but {} marks of forced rows", scores.size(),
                                   forced.size()));
  if (scores.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw InvalidInput(fmt::format("selection of rows: {} rows are more than 2^31 - 1", scores.size()));
  if (budget < 1)
    throw InvalidInput(fmt::format("selection of rows: a budget of {}; it must be at least 1", budget));
  const auto n_forced =
      std::count_if(forced.begin(), forced.end(), [](std::uint8_t mark) { return mark != 0; });
  if (n_forced > budget)
    throw InvalidInput(fmt::format("selection of rows: {} are forced, the budget is {}", n_forced, budget));
  require_finite_scores(scores);
}

// Where the cut falls among rows that are not forced: all scores above the threshold stay, and of those equal
// to it the first `n_ties`.
struct Cut {
  double threshold = std::numeric_limits<double>::quiet_NaN();  // NaN: every row that stays was forced
  std::int64_t n_ties = 0;
};

Cut find_cut(std::span<const double> scores, std::span<const std::uint8_t> forced, std::int64_t budget) {
  std::vector<double> open;
  open.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (forced[i] == 0) open.push_back(scores[i]);
  const auto n_stay = budget - static_cast<std::int64_t>(scores.size() - open.size());
  Cut cut;
  if (n_stay == 0) return cut;
  const auto last = open.begin() + (n_stay - 1);
  std::nth_element(open.begin(), last, open.end(), std::greater<>());
  cut.threshold = *last;
  cut.n_ties =
      n_stay - std::count_if(open.begin(), last, [&](double score) { return score > cut.threshold; });
  return cut;
}

}  // namespace

Selection select_rows(std::span<const double> scores, std::span<const std::uint8_t> forced,
                      std::int64_t budget) {
  check_request(scores, forced, budget);
  Selection selection;
  if (static_cast<std::int64_t>(scores.size()) <= budget) {
    selection.retained.resize(scores.size());
    std::iota(selection.retained.begin(), selection.retained.end(), 0);
    return selection;
  }
  Cut cut = find_cut(scores, forced, budget);
  selection.retained.reserve(budget);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto row = static_cast<std::int32_t>(i);
    const bool tie = scores[i] == cut.threshold && forced[i] == 0 && cut.n_ties > 0;
    if (tie) --cut.n_ties;
    if (tie || forced[i] != 0 || scores[i] > cut.threshold) {
      selection.retained.push_back(row);
    } else {
      selection.evicted.push_back(row);
      selection.margin.push_back(static_cast<float>(cut.threshold - scores[i]));
    }
  }
  return selection;
}

void force_recent(std::int64_t n_recent, std::int64_t budget, std::span<std::uint8_t> forced) {
  const auto n_rows = static_cast<std::int64_t>(forced.size());
  std::fill(forced.end() - std::min({n_recent, budget, n_rows}), forced.end(), std::uint8_t{1});
}

void require_finite_scores(std::span<const double> scores) {
  for (std::size_t row = 0; row < scores.size(); ++row)
    if (!std::isfinite(scores[row]))
      throw InvalidInput(fmt::format(
          "selection of rows: the score of row {} is {}; keys, values and attention weights must be finite",
          row, scores[row]));
}

}  // namespace keyscope::analysis
