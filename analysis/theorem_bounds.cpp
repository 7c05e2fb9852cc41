#include "analysis/theorem_bounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/per_processor.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::VectorXd;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Index kTileQueries = 32;

RowMatrixD unit_rows(const MatrixView& rows, const VectorXd& norms) {
  RowMatrixD unit = rows.cast<double>();
  for (Index i = 0; i < unit.rows(); ++i)
    if (norms[i] != 0) unit.row(i) /= norms[i];
  return unit;
}

void check_pairs(const MatrixView& keys, const MatrixView& queries, std::span<const std::int32_t> positions) {
  if (keys.rows() == 0 || queries.rows() == 0)
    throw InvalidInput(fmt::format("bounds: {} keys and {} queries; at least one of each is needed",
                                   keys.rows(), queries.rows()));
  if (keys.cols() != queries.cols() || static_cast<std::size_t>(queries.rows()) != positions.size())
    throw InvalidInput(fmt::format("bounds: keys of {} columns, queries of {}, {} queries at {} positions",
                                   keys.cols(), queries.cols(), queries.rows(), positions.size()));
  require_finite(keys, "bounds: keys");
  require_finite(queries, "bounds: queries");
}

// Which queries to look at, ascending: all, or as many drawn at random as keep to the number of pairs.
std::vector<Index> choose_queries(Index n_queries, Index n_keys, const BoundOptions& options) {
  std::vector<Index> all(n_queries);
  std::iota(all.begin(), all.end(), Index{0});
  const Index n_wanted = std::max<Index>(1, options.max_pairs / n_keys);
  if (n_wanted >= n_queries) return all;
  std::vector<Index> chosen;
  std::mt19937_64 draw(options.seed);
  std::sample(all.begin(), all.end(), std::back_inserter(chosen), n_wanted, draw);
  return chosen;
}

// Hands the cosines of each chosen query with all keys to `visit`, a tile of queries at a time.
template <typename Visit>
void visit_cosines(const PackedRows& unit_keys, const RowMatrixD& unit_queries,
                   const std::vector<Index>& chosen, const Visit& visit) {
  RowMatrixD tile(kTileQueries, unit_queries.cols());
  RowMatrixD cosines;
  for (std::size_t first = 0; first < chosen.size(); first += kTileQueries) {
    const auto n = std::min<std::size_t>(kTileQueries, chosen.size() - first);
    for (std::size_t i = 0; i < n; ++i) tile.row(static_cast<Index>(i)) = unit_queries.row(chosen[first + i]);
    unit_keys.multiply(tile.topRows(static_cast<Index>(n)), cosines);
    for (std::size_t i = 0; i < n; ++i) visit(chosen[first + i], cosines.row(static_cast<Index>(i)));
  }
}

Index count_visible(std::int32_t position, Index n_keys) {
  return std::clamp<Index>(position + Index{1}, 0, n_keys);
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNaN;
}

// Slacks of both bounds of Theorem 3.2 for one query with all keys; +inf where β is not above 0.
//   beta: cos(k, q) per key; gamma: cos(k̄, k) per key
//   result: how many of the paper's are violations
KEYSCOPE_PER_PROCESSOR
Index find_slacks(double alpha, const double* beta, const double* gamma, Index n_keys, double* slack,
                  double* slack_exact) {
  const double alpha_sine = std::sqrt(std::max(0.0, 1 - alpha * alpha));
  Index n_violations = 0;
  for (Index j = 0; j < n_keys; ++j) {
    const double b = beta[j];
    const double stated = 1 - alpha * alpha / 2 + alpha * b - b * b / 2 - gamma[j];
    const double exact = alpha * b + alpha_sine * std::sqrt(std::max(0.0, 1 - b * b)) - gamma[j];
    slack[j] = b > 0 ? stated : kInfinity;
    slack_exact[j] = b > 0 ? exact : kInfinity;
    n_violations += slack[j] < -kSlackTolerance ? 1 : 0;
  }
  return n_violations;
}

// One query with all keys.
void record_query(MeanKeyBounds& bounds, double alpha, const double* beta, const ArrayXd& gamma,
                  Index n_visible) {
  ArrayXd slack(gamma.size());
  ArrayXd slack_exact(gamma.size());
  bounds.violations += find_slacks(alpha, beta, gamma.data(), gamma.size(), slack.data(), slack_exact.data());
  bounds.pairs_causal += std::count_if(beta, beta + n_visible, [](double b) { return b > 0; });
  bounds.slack.add(slack);
  bounds.slack_exact.add(slack_exact);
}

}  // namespace

MeanKeyBounds mean_key_bounds(const MatrixView& keys, const MatrixView& queries,
                              std::span<const std::int32_t> query_positions, const BoundOptions& options) {
  check_pairs(keys, queries, query_positions);
  const VectorXd mean = mean_row(keys);
  const ArrayXd gamma = cosines_to(keys, mean).array();
  const VectorXd alphas = cosines_to(queries, mean);
  const RowMatrixD unit_queries = unit_rows(queries, row_norms(queries));
  std::vector<Index> chosen = choose_queries(queries.rows(), keys.rows(), options);
  const auto visible_to = [&](Index query) { return count_visible(query_positions[query], keys.rows()); };
  MeanKeyBounds bounds;
  const auto examined = static_cast<std::int64_t>(chosen.size()) * keys.rows();
  if (chosen.size() < query_positions.size()) bounds.sampled = examined;
  std::int64_t examined_causal = 0;
  for (const Index query : chosen) examined_causal += visible_to(query);
  std::erase_if(chosen, [&](Index query) { return alphas[query] >= 0; });  // meet no hypothesis with any key

  visit_cosines(PackedRows(unit_rows(keys, row_norms(keys))), unit_queries, chosen,
                [&](Index query, const auto& row) {
                  record_query(bounds, alphas[query], row.data(), gamma, visible_to(query));
                });
  bounds.pairs = bounds.slack.count();
  bounds.min_slack = bounds.slack.quantile(0);
  bounds.min_slack_exact = bounds.slack_exact.quantile(0);
  bounds.share = share_of(bounds.pairs, examined);
  bounds.share_causal = share_of(bounds.pairs_causal, examined_causal);
  return bounds;
}

namespace {

// What a bound of Lemma 3.1 needs of one query and the keys that it sees.
struct VisibleKeys {
  ArrayXd cosines;
  ArrayXd norms;   // of the keys scaled by ‖q‖/√head_dim
  ArrayXd excess;  // log(n/(n+1)) - log(1-w) per key, n the number of other keys
};

// -log(1-w) per key, w the softmax of the logits. The heaviest key's is taken from the sum of all others: 1-w
// would lose every digit as w goes to 1.
ArrayXd minus_log_rest(const ArrayXd& logits) {
  Index heaviest = 0;
  const double largest = logits.maxCoeff(&heaviest);
  const ArrayXd weights = (logits - largest).exp();
  const double total = weights.sum();
  ArrayXd minus_log = weights / total;
  for (double& value : minus_log) value = -std::log1p(-value);

  ArrayXd others = logits;
  others[heaviest] = -kInfinity;
  const double second = others.maxCoeff();
  const double log_rest = second + std::log((others - second).exp().sum());
  minus_log[heaviest] = largest + std::log(total) - log_rest;
  return minus_log;
}

void record(BoundRecord& bound, const ArrayXd& slack, const ArrayXd& divisor) {
  bound.min_slack = std::min(bound.min_slack, slack.minCoeff());
  bound.slack.add(slack);
  // Rounding in `excess` comes out divided by M or ‖k*‖.
  bound.violations += (slack * divisor.min(1.0) < -kSlackTolerance).count();
}

void record_query(AttentionWeightBounds& bounds, const VisibleKeys& keys) {
  const auto directed = keys.norms > 0;
  const auto nonnegative = directed && keys.cosines >= 0;
  bounds.pairs += directed.count();
  bounds.pairs_nonnegative += nonnegative.count();
  const double largest = keys.norms.maxCoeff();
  if (largest == 0) return;
  const auto record_reading = [&](BoundRecord& reading, double m) {
    const ArrayXd slack = keys.cosines - (keys.excess / (2 * m) - 1);
    record(reading, nonnegative.select(slack, kInfinity), ArrayXd::Constant(slack.size(), m));
  };
  record_reading(bounds.stated, largest * largest);
  record_reading(bounds.proof, largest);
  const double largest_product = (keys.cosines * keys.norms).abs().maxCoeff();
  const ArrayXd slack = keys.cosines - (keys.excess - largest_product) / keys.norms;
  record(bounds.always, directed.select(slack, kInfinity), keys.norms);
}

}  // namespace

AttentionWeightBounds attention_weight_bounds(const MatrixView& keys, const MatrixView& queries,
                                              std::span<const std::int32_t> query_positions,
                                              const BoundOptions& options) {
  check_pairs(keys, queries, query_positions);
  const VectorXd key_norms = row_norms(keys);
  const VectorXd query_norms = row_norms(queries);
  const RowMatrixD unit_queries = unit_rows(queries, query_norms);
  std::vector<Index> chosen = choose_queries(queries.rows(), keys.rows(), options);
  AttentionWeightBounds bounds;
  if (chosen.size() < query_positions.size())
    bounds.sampled = static_cast<std::int64_t>(chosen.size()) * keys.rows();
  std::erase_if(chosen, [&](Index query) { return query_norms[query] == 0; });

  for (BoundRecord* bound : {&bounds.stated, &bounds.proof, &bounds.always}) bound->min_slack = kInfinity;
  const double scale = 1 / std::sqrt(static_cast<double>(keys.cols()));
  visit_cosines(PackedRows(unit_rows(keys, key_norms)), unit_queries, chosen,
                [&](Index query, const auto& row) {
                  const Index n_visible = count_visible(query_positions[query], keys.rows());
                  if (n_visible < 2) return;
                  VisibleKeys visible;
                  visible.cosines = row.head(n_visible).transpose().array();
                  visible.norms = key_norms.head(n_visible).array() * (query_norms[query] * scale);
                  const auto n_others = static_cast<double>(n_visible - 1);
                  visible.excess =
                      std::log(n_others / (n_others + 1)) + minus_log_rest(visible.cosines * visible.norms);
                  record_query(bounds, visible);
                });
  for (BoundRecord* bound : {&bounds.stated, &bounds.proof, &bounds.always})
    if (bound->min_slack == kInfinity) bound->min_slack = kNaN;
  bounds.share_nonnegative = share_of(bounds.pairs_nonnegative, bounds.pairs);
  return bounds;
}

namespace {

// A double's exponent and the leading four bits of its mantissa, read as one number, grow with its magnitude
// by one per sixteenth of an octave.
constexpr int kDroppedBits = 48;
constexpr std::int64_t code_of(double magnitude) {
  return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(magnitude) >> kDroppedBits);
}

constexpr std::int64_t kSmallest = code_of(0x1p-40);
constexpr std::int64_t kBins = code_of(0x1p40) - kSmallest;  // of each sign

constexpr Eigen::Index kLanes = 4;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Integers = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));

// Places for +inf beyond the bins, one a lane: no branch on what is random, and no counter that every other
// slack waits for.
constexpr std::int64_t kNotCounted = 2 * kBins + 1;
constexpr Integers kNotCountedPlaces = Integers{0, 1, 2, 3} + kNotCounted;

// Counts four slacks, and widens `min` and `max` to hold them.
[[gnu::always_inline]] inline void count_slacks(const double* slacks, std::int64_t* counts, Doubles& min,
                                                Doubles& max) {
  Doubles x;
  Integers bits;
  std::memcpy(&x, slacks, sizeof x);
  std::memcpy(&bits, slacks, sizeof bits);
  Integers magnitude = ((bits & std::numeric_limits<std::int64_t>::max()) >> kDroppedBits) - (kSmallest - 1);
  magnitude = magnitude < 0 ? Integers{} : magnitude;
  magnitude = magnitude > kBins ? Integers{} + kBins : magnitude;
  Integers bins = (x < 0 ? -magnitude : magnitude) + kBins;
  bins = x == kInfinity ? kNotCountedPlaces : bins;
  min = x < min ? x : min;
  const Doubles counted = x == kInfinity ? -x : x;
  max = counted > max ? counted : max;
  for (Eigen::Index lane = 0; lane < kLanes; ++lane) ++counts[bins[lane]];
}

KEYSCOPE_PER_PROCESSOR
void count_all_slacks(const double* slacks, Eigen::Index n, std::int64_t* counts, double& least,
                      double& largest) {
  Doubles min = Doubles{} + least;
  Doubles max = Doubles{} + largest;
  Eigen::Index i = 0;
  for (; i + kLanes <= n; i += kLanes) count_slacks(slacks + i, counts, min, max);
  double rest[kLanes];
  std::fill(rest, rest + kLanes, kInfinity);
  std::copy(slacks + i, slacks + n, rest);
  count_slacks(rest, counts, min, max);
  for (Eigen::Index lane = 0; lane < kLanes; ++lane) {
    least = std::min(least, min[lane]);
    largest = std::max(largest, max[lane]);
  }
}

// The bin of one slack, as count_slacks finds it for four.
std::int64_t bin_of(double slack) {
  const std::int64_t magnitude =
      std::clamp<std::int64_t>(code_of(std::abs(slack)) - (kSmallest - 1), 0, kBins);
  return kBins + (slack < 0 ? -magnitude : magnitude);
}

// The smallest magnitude of a bin, counted from 1; that of bin 0, which is zero to 2^-40, is its end.
double magnitude_of(std::int64_t bin) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(kSmallest + bin - 1) << kDroppedBits);
}

double middle_of(std::int64_t bin) {
  const std::int64_t magnitude = std::abs(bin - kBins);
  if (magnitude == 0) return 0;
  const double middle = (magnitude_of(magnitude) + magnitude_of(magnitude + 1)) / 2;
  return bin < kBins ? -middle : middle;
}

// Where a bin begins, the bin before it ending there.
double lower_edge_of(std::int64_t bin) {
  return bin > kBins ? magnitude_of(bin - kBins) : -magnitude_of(kBins - bin + 1);
}

}  // namespace

SlackHistogram::SlackHistogram() : counts_(kNotCounted + kLanes), min_(kInfinity), max_(-kInfinity) {}

void SlackHistogram::add(const Eigen::ArrayXd& slacks) {
  count_all_slacks(slacks.data(), slacks.size(), counts_.data(), min_, max_);
  const auto not_counted = counts_.begin() + kNotCounted;
  const Eigen::Index n_filled = kLanes - slacks.size() % kLanes;  // to the last four
  count_ += slacks.size() + n_filled - std::reduce(not_counted, counts_.end());
  std::fill(not_counted, counts_.end(), 0);
}

void SlackHistogram::add(const SlackHistogram& other) {
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) counts_[bin] += other.counts_[bin];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double SlackHistogram::count_below(double slack) const {
  if (!(slack > min_)) return 0;
  if (slack > max_) return static_cast<double>(count_);
  const std::int64_t own = bin_of(slack);
  std::int64_t n_below = 0;
  for (std::int64_t bin = 0; bin < own; ++bin) n_below += counts_[bin];
  const double share =
      std::clamp((slack - lower_edge_of(own)) / (lower_edge_of(own + 1) - lower_edge_of(own)), 0.0, 1.0);
  return static_cast<double>(n_below) + share * static_cast<double>(counts_[own]);
}

double SlackHistogram::quantile(double p) const {
  if (!(p >= 0 && p <= 1))
    throw InvalidInput(fmt::format("slack histogram: a probability of {}; expected 0 to 1", p));
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<std::int64_t>(std::ceil(p * static_cast<double>(count_)));
  if (rank <= 1) return min_;
  if (rank >= count_) return max_;
  std::int64_t n_below = 0;
  std::int64_t bin = 0;
  while ((n_below += counts_[bin]) < rank) ++bin;
  return std::clamp(middle_of(bin), min_, max_);
}

}  // namespace keyscope::analysis
