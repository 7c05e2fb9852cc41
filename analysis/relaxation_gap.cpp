#include "analysis/relaxation_gap.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using Rows = std::vector<std::int32_t>;

// An exchange must lower the objective by more than rounding, relative to the N² of N equal keys: without
// this a search could go round in circles.
constexpr double kLeastGain = 1e-13;

void check_request(const MatrixView& keys, std::int64_t budget, const SearchOptions& options) {
  if (keys.rows() == 0) throw InvalidInput("relaxation gap: there are no keys");
  if (budget < 1)
    throw InvalidInput(fmt::format("relaxation gap: a budget of {}; it must be at least 1", budget));
  if (options.max_subsets < 0 || options.max_sweeps < 0)
    throw InvalidInput(fmt::format("relaxation gap: at most {} sets and {} sweeps; neither can be negative",
                                   options.max_subsets, options.max_sweeps));
  require_finite(keys, "relaxation gap");
}

// Sums afresh: exchanges leave rounding behind.
VectorXd sum_of(const RowMatrixD& unit, const Rows& rows) {
  VectorXd sum = VectorXd::Zero(unit.cols());
  for (const auto row : rows) sum += unit.row(row).transpose();
  return sum;
}

// Whether the search through all sets of `budget` rows, of which there are C(n, budget), visits at most
// `limit` of them and of their beginnings: C(n + 1, budget).
bool has_few_subsets(Index n, Index budget, std::int64_t limit) {
  double n_visited = 1;
  for (Index i = 1; i <= std::min(budget, n + 1 - budget); ++i) {
    n_visited *= static_cast<double>(n + 2 - i) / static_cast<double>(i);
    if (n_visited > static_cast<double>(limit) + 0.5) return false;
  }
  return limit > 0;
}

// Tries every set of `budget` rows, depth first: one sum of unit keys a level, so that a set costs about one
// addition of a key.
class AllSubsets {
 public:
  AllSubsets(const RowMatrixD& unit, Index budget)
      : unit_(unit), budget_(budget), sums_(RowMatrixD::Zero(budget + 1, unit.cols())) {}

  Rows find_best() {
    extend(0);
    return best_;
  }

 private:
  void extend(Index first) {
    const auto n_chosen = static_cast<Index>(chosen_.size());
    if (n_chosen == budget_) return compare();
    for (Index row = first; row <= unit_.rows() - (budget_ - n_chosen); ++row) {
      sums_.row(n_chosen + 1) = sums_.row(n_chosen) + unit_.row(row);
      chosen_.push_back(static_cast<std::int32_t>(row));
      extend(row + 1);
      chosen_.pop_back();
    }
  }

  void compare() {
    const double objective = sums_.row(budget_).squaredNorm();
    if (!best_.empty() && objective >= best_objective_) return;
    best_objective_ = objective;
    best_ = chosen_;
  }

  const RowMatrixD& unit_;
  Index budget_;
  RowMatrixD sums_;  // (budget + 1, head_dim) of the first 0, 1, … chosen rows
  Rows chosen_, best_;
  double best_objective_ = 0;
};

class ExchangeSearch {
 public:
  ExchangeSearch(const RowMatrixD& unit, const Selection& seed)
      : unit_(unit), retained_(seed.retained), evicted_(seed.evicted) {
    const auto n = static_cast<double>(retained_.size());
    least_gain_ = kLeastGain * n * n;
  }

  // Whether the sweep made an exchange.
  bool sweep() {
    sum_ = sum_of(unit_, retained_);
    sort_by_product();
    const std::int64_t n_before = n_exchanges_;
    for (std::size_t i = 0; i < std::min(retained_.size(), evicted_.size()); ++i)
      if (change(i, i) < -least_gain_) exchange(i, i);
    if (n_exchanges_ == n_before) exchange_best_of_leaders();
    return n_exchanges_ > n_before;
  }

  const Rows& retained() const { return retained_; }
  std::int64_t n_exchanges() const { return n_exchanges_; }

 private:
  // The retained that weigh most first, the evicted that weigh least first; of equal ones the lower row.
  void sort_by_product() {
    const VectorXd products = unit_ * sum_;
    std::sort(retained_.begin(), retained_.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(-products[a], a) < std::pair(-products[b], b);
    });
    std::sort(evicted_.begin(), evicted_.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(products[a], a) < std::pair(products[b], b);
    });
  }

  // ‖Σ - k̂_out + k̂_in‖² - ‖Σ‖² for the exchange of retained_[out] for evicted_[in].
  double change(std::size_t out, std::size_t in) const {
    const auto step = unit_.row(evicted_[in]) - unit_.row(retained_[out]);
    return 2 * step.dot(sum_) + step.squaredNorm();
  }

  void exchange(std::size_t out, std::size_t in) {
    sum_ += (unit_.row(evicted_[in]) - unit_.row(retained_[out])).transpose();
    std::swap(retained_[out], evicted_[in]);
    ++n_exchanges_;
  }

  void exchange_best_of_leaders() {
    const auto n = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(unit_.rows()))));
    double best = -least_gain_;
    std::pair<std::size_t, std::size_t> place;
    for (std::size_t out = 0; out < std::min(n, retained_.size()); ++out)
      for (std::size_t in = 0; in < std::min(n, evicted_.size()); ++in)
        if (const double found = change(out, in); found < best) {
          best = found;
          place = {out, in};
        }
    if (best < -least_gain_) exchange(place.first, place.second);
  }

  const RowMatrixD& unit_;
  Rows retained_, evicted_;
  VectorXd sum_;
  double least_gain_ = 0;
  std::int64_t n_exchanges_ = 0;
};

Selection keydiff_seed(const MatrixView& keys, std::int64_t budget) {
  const VectorXd scores = -cosines_to(keys, normalized_mean_row(keys));
  const std::vector<std::uint8_t> forced(scores.size());
  return select_rows({scores.data(), forced.size()}, forced, budget);
}

void search(const RowMatrixD& unit, const Selection& seed, const SearchOptions& options, RelaxationGap& gap) {
  ExchangeSearch exchanges(unit, seed);
  while (!gap.converged && gap.n_sweeps < options.max_sweeps) {
    gap.converged = !exchanges.sweep();
    ++gap.n_sweeps;
  }
  gap.n_exchanges = exchanges.n_exchanges();
  gap.best = exchanges.retained();
  std::sort(gap.best.begin(), gap.best.end());
}

}  // namespace

RelaxationGap relaxation_gap(const MatrixView& keys, std::int64_t budget, const SearchOptions& options) {
  check_request(keys, budget, options);
  const RowMatrixD unit = unit_rows(keys);
  const Selection seed = keydiff_seed(keys, budget);
  const auto n_retained = static_cast<Index>(seed.retained.size());
  RelaxationGap gap;
  gap.seed = seed.retained;
  gap.seed_objective = sum_of(unit, gap.seed).squaredNorm();
  if (n_retained == unit.rows()) {  // one set alone
    gap.best = gap.seed;
    gap.exhaustive = gap.converged = true;
  } else if (has_few_subsets(unit.rows(), n_retained, options.max_subsets)) {
    gap.best = AllSubsets(unit, n_retained).find_best();
    gap.exhaustive = gap.converged = true;
  } else {
    search(unit, seed, options, gap);
  }
  gap.best_objective = sum_of(unit, gap.best).squaredNorm();
  if (gap.best_objective >= gap.seed_objective) {  // equal up to rounding: the seed is as good
    gap.best = gap.seed;
    gap.best_objective = gap.seed_objective;
  }
  return gap;
}

}  // namespace keyscope::analysis
