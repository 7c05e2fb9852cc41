#include "analysis/theorem_bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/per_processor.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/similarity.hpp"
#include "analysis/vector_math.hpp"
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

// The least slacks of both bounds of Theorem 3.2, and how many pairs they are of.
struct LeastSlacks {
  std::int64_t pairs = 0, violations = 0;
  double stated = kInfinity, exact = kInfinity;
};

constexpr Index kBlockKeys = 64;

// The same as find_slacks for a block of keys, of which only the least are kept. For |β| <= 1, √(1-β²) is not
// below 1 - β²/2 - β⁴/2, which is (1-t)(1+t/2) with t = β², and (1-t)(1+t/2)² = 1 - 3t²/4 - t³/4 <= 1: roots
// are taken only where that leaves room below the least slack so far.
template <int kBytes>
[[gnu::always_inline]] inline void find_least_by(double alpha, const double* beta, const double* gamma,
                                                 LeastSlacks& least) {
  using Doubles = typename VectorOf<kBytes>::Doubles;
  using Integers = typename VectorOf<kBytes>::Integers;
  constexpr Index kLanes = kBytes / static_cast<int>(sizeof(double));
  constexpr double kRounding = 1e-14;  // of either side: some units of 1e-16
  const double alpha_sine = std::sqrt(std::max(0.0, 1 - alpha * alpha)), constant = 1 - alpha * alpha / 2;
  Doubles least_stated = Doubles{} + kInfinity, least_exact = least_stated;
  Integers pairs{}, violations{};
  for (Index j = 0; j < kBlockKeys; j += kLanes) {
    Doubles b, g;
    std::memcpy(&b, beta + j, sizeof b);
    std::memcpy(&g, gamma + j, sizeof g);
    const Doubles half_square = b * b / 2, infinite = Doubles{} + kInfinity;
    const Doubles stated = constant + alpha * b - half_square - g;
    const Doubles exact = alpha * b + alpha_sine * (1 - half_square - b * b * half_square) - g;
    const auto applies = b > 0;
    const Doubles stated_slack = applies ? stated : infinite, exact_slack = applies ? exact : infinite;
    pairs -= applies;  // a comparison is -1 where it holds
    violations -= stated_slack < -kSlackTolerance;
    least_stated = stated_slack < least_stated ? stated_slack : least_stated;
    least_exact = exact_slack < least_exact ? exact_slack : least_exact;
  }
  double lower = kInfinity;
  for (Index lane = 0; lane < kLanes; ++lane) {
    least.pairs += pairs[lane];
    least.violations += violations[lane];
    least.stated = std::min(least.stated, least_stated[lane]);
    lower = std::min(lower, least_exact[lane]);
  }
  if (lower - kRounding >= least.exact) return;
  for (Index j = 0; j < kBlockKeys; ++j) {
    const double b = beta[j];
    const double exact = alpha * b + alpha_sine * std::sqrt(std::max(0.0, 1 - b * b)) - gamma[j];
    if (b > 0) least.exact = std::min(least.exact, exact);
  }
}
KEYSCOPE_BY_WIDTH(find_least, (double alpha, const double* beta, const double* gamma, LeastSlacks& least),
                  (alpha, beta, gamma, least))

// What both results are measured on: the pairs of all keys with some of the queries.
struct Pairs {
  const MatrixView& keys;
  const MatrixView& queries;
  std::span<const std::int32_t> positions;  // of the queries
  VectorXd key_norms, query_norms;
  std::vector<Index> chosen;  // queries

  Pairs(const MatrixView& all_keys, const MatrixView& all_queries,
        std::span<const std::int32_t> query_positions, const BoundOptions& options)
      : keys(all_keys), queries(all_queries), positions(query_positions) {
    check_pairs(keys, queries, positions);
    key_norms = row_norms(keys);
    query_norms = row_norms(queries);
    chosen = choose_queries(queries.rows(), keys.rows(), options);
  }

  std::int64_t n_examined() const { return static_cast<std::int64_t>(chosen.size()) * keys.rows(); }
  std::int64_t n_sampled() const { return std::ssize(chosen) < queries.rows() ? n_examined() : 0; }
  Index n_visible(Index query) const { return count_visible(positions[query], keys.rows()); }
};

class TheoremRecorder {
 public:
  TheoremRecorder(const Pairs& pairs, bool histograms) : pairs_(pairs) {
    const VectorXd mean = mean_row(pairs.keys);
    gamma_ = cosines_to(pairs.keys, mean).array();
    alphas_ = cosines_to(pairs.queries, mean);
    if (histograms) counted_.emplace(gamma_.size());
  }

  // All keys, or none: the other queries meet no hypothesis with any.
  Index n_wanted(Index query) const { return alphas_[query] < 0 ? gamma_.size() : 0; }

  //   beta: the query's cosines with all keys
  void record(Index query, const double* beta) {
    const Index n = gamma_.size(), n_visible = pairs_.n_visible(query);
    if (counted_) {
      counted_->add(alphas_[query], beta, gamma_.data(), n);
      bounds_.pairs_causal += std::count_if(beta, beta + n_visible, [](double b) { return b > 0; });
    } else {
      const std::int64_t before = least_.pairs;
      find_least_of(alphas_[query], beta, gamma_.data(), n_visible);
      bounds_.pairs_causal += least_.pairs - before;
      find_least_of(alphas_[query], beta + n_visible, gamma_.data() + n_visible, n - n_visible);
    }
  }

  MeanKeyBounds result() && {
    std::int64_t examined_causal = 0;
    for (const Index query : pairs_.chosen) examined_causal += pairs_.n_visible(query);
    bounds_.sampled = pairs_.n_sampled();
    if (counted_) {
      bounds_.slack = counted_->stated.histogram();
      bounds_.slack_exact = counted_->exact.histogram();
      least_ = {bounds_.slack.count(), counted_->violations, bounds_.slack.quantile(0),
                bounds_.slack_exact.quantile(0)};
    }
    bounds_.pairs = least_.pairs;
    bounds_.violations = least_.violations;
    bounds_.min_slack = least_.pairs > 0 ? least_.stated : kNaN;
    bounds_.min_slack_exact = least_.pairs > 0 ? least_.exact : kNaN;
    bounds_.share = share_of(bounds_.pairs, pairs_.n_examined());
    bounds_.share_causal = share_of(bounds_.pairs_causal, examined_causal);
    return std::move(bounds_);
  }

 private:
  struct Counted {
    ArrayXd slack, slack_exact;  // of one query
    SlackCounter stated, exact;
    std::int64_t violations = 0;

    explicit Counted(Index n_keys) : slack(n_keys), slack_exact(n_keys) {}

    void add(double alpha, const double* beta, const double* gamma, Index n) {
      violations += find_slacks(alpha, beta, gamma, n, slack.data(), slack_exact.data());
      stated.add(slack.data(), n);
      exact.add(slack_exact.data(), n);
    }
  };

  void find_least_of(double alpha, const double* beta, const double* gamma, Index n) {
    Index j = 0;
    for (; j + kBlockKeys <= n; j += kBlockKeys) find_least(alpha, beta + j, gamma + j, least_);
    if (j == n) return;
    double last_beta[kBlockKeys] = {}, last_gamma[kBlockKeys] = {};  // β = 0 meets no hypothesis
    std::copy(beta + j, beta + n, last_beta);
    std::copy(gamma + j, gamma + n, last_gamma);
    find_least(alpha, last_beta, last_gamma, least_);
  }

  const Pairs& pairs_;
  ArrayXd gamma_;    // cos(k̄, k) per key
  VectorXd alphas_;  // cos(k̄, q) per query
  std::optional<Counted> counted_;
  LeastSlacks least_;
  MeanKeyBounds bounds_;
};

// Of Lemma 3.1, what is the same for all keys that one query sees.
struct LemmaQuery {
  double factor = 0;           // ‖q‖/√head_dim: folded into the keys
  double log_ratio = 0;        // log(n/(n+1)), n the number of other keys
  double largest = 0;          // ‖k‖ of the keys so scaled
  double largest_product = 0;  // |k·q|, likewise
};

KEYSCOPE_PER_PROCESSOR
double largest_of(const double* numbers, Index n) {
  FourDoubles largest = FourDoubles{} - kInfinity;
  Index j = 0;
  for (; j + kFour <= n; j += kFour) {
    FourDoubles x;
    std::memcpy(&x, numbers + j, sizeof x);
    largest = x > largest ? x : largest;
  }
  double found = std::max({largest[0], largest[1], largest[2], largest[3]});
  for (; j < n; ++j) found = std::max(found, numbers[j]);
  return found;
}

KEYSCOPE_PER_PROCESSOR
void find_logits(const double* cosines, const double* norms, double factor, Index n, double* logits) {
  for (Index j = 0; j < n; ++j) logits[j] = cosines[j] * (norms[j] * factor);
}

// How many pairs, of how many the cosine is not negative, and how many violate each of the lemma's forms.
struct LemmaCounts {
  FourIntegers pairs{}, nonnegative{}, stated{}, proof{}, always{};

  static std::int64_t sum(const FourIntegers& counts) {
    return counts[0] + counts[1] + counts[2] + counts[3];
  }
};

// Of four keys, or of as many to be read and written.
struct LemmaKeys {
  const double *cosines, *norms, *minus_logs;
  double *stated, *proof, *always;
};

// Slacks of the lemma's three forms of four keys; +inf where one is not applied.
//   minus_logs: -log(1-w) per key
[[gnu::always_inline]] inline void find_four_slacks(const LemmaQuery& query, const LemmaKeys& keys,
                                                    LemmaCounts& counts) {
  const double m_stated = query.largest * query.largest, m_proof = query.largest;
  // Rounding in `excess` comes out divided by M or ‖k*‖.
  const double least_stated = -kSlackTolerance / std::min(1.0, m_stated);
  const double least_proof = -kSlackTolerance / std::min(1.0, m_proof);
  FourDoubles cosine, norm, minus_log;
  std::memcpy(&cosine, keys.cosines, sizeof cosine);
  std::memcpy(&norm, keys.norms, sizeof norm);
  std::memcpy(&minus_log, keys.minus_logs, sizeof minus_log);
  norm *= query.factor;
  const FourDoubles excess = query.log_ratio + minus_log, infinite = FourDoubles{} + kInfinity;
  const auto directed = norm > 0, nonnegative = directed & (cosine >= 0);
  const FourDoubles by_always = cosine - (excess - query.largest_product) / norm;
  const FourDoubles stated = nonnegative ? cosine - (excess * (0.5 / m_stated) - 1) : infinite;
  const FourDoubles proof = nonnegative ? cosine - (excess * (0.5 / m_proof) - 1) : infinite;
  const FourDoubles always = directed ? by_always : infinite;
  const FourDoubles divided_by = norm < 1 ? norm : FourDoubles{} + 1;
  // A comparison is -1 where it holds.
  counts.pairs -= directed;
  counts.nonnegative -= nonnegative;
  counts.stated -= stated < least_stated;
  counts.proof -= proof < least_proof;
  counts.always -= always * divided_by < -kSlackTolerance;
  std::memcpy(keys.stated, &stated, sizeof stated);
  std::memcpy(keys.proof, &proof, sizeof proof);
  std::memcpy(keys.always, &always, sizeof always);
}

// The same of n keys, the last ones filled up by keys of norm zero.
KEYSCOPE_PER_PROCESSOR
void find_lemma_slacks(const LemmaQuery& query, const LemmaKeys& keys, Index n, LemmaCounts& counts) {
  Index j = 0;
  for (; j + kFour <= n; j += kFour)
    find_four_slacks(query,
                     {keys.cosines + j, keys.norms + j, keys.minus_logs + j, keys.stated + j, keys.proof + j,
                      keys.always + j},
                     counts);
  if (j == n) return;
  double cosines[kFour] = {}, norms[kFour] = {}, minus_logs[kFour] = {};
  double stated[kFour], proof[kFour], always[kFour];
  std::copy(keys.cosines + j, keys.cosines + n, cosines);
  std::copy(keys.norms + j, keys.norms + n, norms);
  std::copy(keys.minus_logs + j, keys.minus_logs + n, minus_logs);
  find_four_slacks(query, {cosines, norms, minus_logs, stated, proof, always}, counts);
  std::copy(stated, stated + (n - j), keys.stated + j);
  std::copy(proof, proof + (n - j), keys.proof + j);
  std::copy(always, always + (n - j), keys.always + j);
}

class LemmaRecorder {
 public:
  explicit LemmaRecorder(const Pairs& pairs)
      : pairs_(pairs), scale_(1 / std::sqrt(static_cast<double>(pairs.keys.cols()))) {
    for (ArrayXd* slack : {&stated_, &proof_, &always_}) slack->resize(pairs.keys.rows());
    work_.resize(pairs.keys.rows());
    largest_norms_ = pairs.key_norms;
    for (Index i = 1; i < largest_norms_.size(); ++i)
      largest_norms_[i] = std::max(largest_norms_[i], largest_norms_[i - 1]);
  }

  // The first ones, which it sees; none where there are no others.
  Index n_wanted(Index query) const {
    const Index n = pairs_.n_visible(query);
    return pairs_.query_norms[query] > 0 && n >= 2 ? n : 0;
  }

  void record(Index query, const double* cosines) {
    const Index n = pairs_.n_visible(query);
    LemmaQuery about;
    about.factor = pairs_.query_norms[query] * scale_;
    about.log_ratio = std::log(static_cast<double>(n - 1) / static_cast<double>(n));
    about.largest = largest_norms_[n - 1] * about.factor;
    if (about.largest == 0) return;
    find_logits(cosines, pairs_.key_norms.data(), about.factor, n, work_.data());
    about.largest_product = find_minus_logs(n);
    find_lemma_slacks(
        about,
        {cosines, pairs_.key_norms.data(), work_.data(), stated_.data(), proof_.data(), always_.data()}, n,
        counts_);
    counted_[0].add(stated_.data(), n);
    counted_[1].add(proof_.data(), n);
    counted_[2].add(always_.data(), n);
  }

  AttentionWeightBounds result() && {
    bounds_.sampled = pairs_.n_sampled();
    bounds_.pairs = LemmaCounts::sum(counts_.pairs);
    bounds_.pairs_nonnegative = LemmaCounts::sum(counts_.nonnegative);
    bounds_.stated.violations = LemmaCounts::sum(counts_.stated);
    bounds_.proof.violations = LemmaCounts::sum(counts_.proof);
    bounds_.always.violations = LemmaCounts::sum(counts_.always);
    auto counted = counted_.begin();
    for (BoundRecord* bound : {&bounds_.stated, &bounds_.proof, &bounds_.always}) {
      bound->slack = (counted++)->histogram();
      bound->min_slack = bound->slack.quantile(0);
    }
    bounds_.share_nonnegative = share_of(bounds_.pairs_nonnegative, bounds_.pairs);
    return std::move(bounds_);
  }

 private:
  // Turns the first n logits into -log(1-w), w their softmax. The heaviest key's is taken from the sum of all
  // others: 1-w would lose every digit as w goes to 1. Returns the largest magnitude of a logit.
  double find_minus_logs(Index n) {
    const double largest = largest_of(work_.data(), n), least = work_.head(n).minCoeff();
    double& heaviest = *std::find(work_.data(), work_.data() + n, largest);
    heaviest = -kInfinity;
    const double second = largest_of(work_.data(), n);
    const std::span<double> weights(work_.data(), static_cast<std::size_t>(n));
    const double rest = exponentials(weights, second, weights);  // of the others, relative to the second
    const double gap = largest - second;
    const double log_total = gap + std::log1p(rest * std::exp(-gap));  // of all, likewise
    work_.head(n) *= std::exp(-log_total);
    minus_log_of_rest(weights, weights);
    heaviest = log_total - std::log(rest);
    return std::max(std::abs(largest), std::abs(least));
  }

  const Pairs& pairs_;
  double scale_;
  VectorXd largest_norms_;  // of all keys up to one
  ArrayXd work_;            // logits, weights, -log(1-w), one after another
  ArrayXd stated_, proof_, always_;
  LemmaCounts counts_;
  std::array<SlackCounter, 3> counted_;  // of these three
  AttentionWeightBounds bounds_;
};

// Hands every query that a recorder wants to it, with the query's cosines with as many keys as it wants.
template <typename... Recorders>
void record_pairs(const Pairs& pairs, Recorders&... recorders) {
  const PackedRows unit_keys(unit_rows(pairs.keys, pairs.key_norms));
  const auto n_wanted = [&](Index query) { return std::max({recorders.n_wanted(query)...}); };
  std::vector<Index> wanted = pairs.chosen;
  std::erase_if(wanted, [&](Index query) { return n_wanted(query) == 0; });
  std::ranges::stable_sort(wanted, {}, n_wanted);  // a tile's are multiplied with the keys of its last
  RowMatrixD tile(kTileQueries, pairs.queries.cols()), cosines;
  for (std::size_t first = 0; first < wanted.size(); first += kTileQueries) {
    const std::span<const Index> queries =
        std::span(wanted).subspan(first, std::min<std::size_t>(kTileQueries, wanted.size() - first));
    const auto n = std::ssize(queries);
    for (Index i = 0; i < n; ++i) {
      const double norm = pairs.query_norms[queries[i]];
      tile.row(i) = pairs.queries.row(queries[i]).cast<double>() / (norm > 0 ? norm : 1);
    }
    unit_keys.multiply(tile.topRows(n), cosines, 0, n_wanted(queries.back()));
    for (Index i = 0; i < n; ++i) {
      const auto record = [&](auto& recorder) {
        if (recorder.n_wanted(queries[i]) > 0) recorder.record(queries[i], cosines.row(i).data());
      };
      (record(recorders), ...);
    }
  }
}

}  // namespace

MeanKeyBounds mean_key_bounds(const MatrixView& keys, const MatrixView& queries,
                              std::span<const std::int32_t> query_positions, const BoundOptions& options) {
  const Pairs pairs(keys, queries, query_positions, options);
  TheoremRecorder theorem(pairs, options.histograms);
  record_pairs(pairs, theorem);
  return std::move(theorem).result();
}

AttentionWeightBounds attention_weight_bounds(const MatrixView& keys, const MatrixView& queries,
                                              std::span<const std::int32_t> query_positions,
                                              const BoundOptions& options) {
  const Pairs pairs(keys, queries, query_positions, options);
  LemmaRecorder lemma(pairs);
  record_pairs(pairs, lemma);
  return std::move(lemma).result();
}

PairBounds pair_bounds(const MatrixView& keys, const MatrixView& queries,
                       std::span<const std::int32_t> query_positions, const BoundOptions& options) {
  const Pairs pairs(keys, queries, query_positions, options);
  TheoremRecorder theorem(pairs, options.histograms);
  LemmaRecorder lemma(pairs);
  record_pairs(pairs, theorem, lemma);
  return {std::move(theorem).result(), std::move(lemma).result()};
}

}  // namespace keyscope::analysis
