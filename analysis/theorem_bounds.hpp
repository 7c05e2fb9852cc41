#pragma once

#include <cstdint>
#include <span>

#include "analysis/matrix_view.hpp"
#include "analysis/slack_histogram.hpp"

namespace keyscope::analysis {

// The paper's two results, measured on real heads: KeyDiff (arXiv 2504.15364), Section 3.3 and Appendix C.3.
// A slack counts as a violation below minus this: everything above is rounding.
inline constexpr double kSlackTolerance = 1e-9;

struct BoundOptions {
  std::int64_t max_pairs = 1'000'000'000;  // more are sampled: whole queries, drawn without replacement
  std::uint64_t seed = 0;
  // Of Theorem 3.2; without them `slack` and `slack_exact` stay empty, in half the time.
  bool histograms = true;
};

// Theorem 3.2 (C.3) over pairs of a key k* and a query q, with k̄ the mean key, α = cos(k̄, q), β = cos(k*, q):
// where α < 0 < β,  cos(k̄, k*) <= 1 + αβ - α²/2 - β²/2. The exact spherical bound αβ + √(1-α²) √(1-β²) is
// never larger. Slack is the bound minus cos(k̄, k*).
struct MeanKeyBounds {
  std::int64_t pairs = 0;         // that meet α < 0 < β
  std::int64_t pairs_causal = 0;  // of these, with the key at or before the query's position
  std::int64_t violations = 0;    // of the paper's bound; none, if it is right and so are we
  std::int64_t sampled = 0;       // pairs looked at, if that is not all of them; 0: all
  double min_slack = 0;           // of the paper's bound; NaN without pairs
  // Its square roots cost digits: down to -3e-8 by rounding, for cosines near ±1.
  double min_slack_exact = 0;
  double share = 0;  // pairs as a share of all those looked at: how often the theorem says anything
  // pairs_causal as a share of those looked at with the key at or before the query; NaN if there are none
  double share_causal = 0;
  SlackHistogram slack;  // of the paper's bound, over `pairs`
  SlackHistogram slack_exact;
};

// Over all keys and all queries given; nothing of size n_keys x n_queries is kept.
//   keys: (n_keys, head_dim), row = position; queries: (n_queries, head_dim) of any of the group's query
//   heads; query_positions: (n_queries) throws InvalidInput on sizes that do not match, no keys, no queries,
//   or anything that is not finite
MeanKeyBounds mean_key_bounds(const MatrixView& keys, const MatrixView& queries,
                              std::span<const std::int32_t> query_positions,
                              const BoundOptions& options = {});

// One bound's record over the pairs that it was applied to.
struct BoundRecord {
  std::int64_t violations = 0;  // slack below -kSlackTolerance · max(1, 1/divisor), for the bound's divisor
  double min_slack = 0;         // cos(k*, q) minus the bound; NaN without pairs
  SlackHistogram slack;         // the same, over all pairs that it was applied to
};

// Lemma 3.1 (Theorem C.1) over pairs of a query and a key k* that it can see, n others being visible, w the
// attention weight on k*. The assumptions ‖q‖ = 1 and scale 1 are brought about by folding ‖q‖/√head_dim into
// the keys; M is then taken per query over its visible keys. The paper's bound
//     cos(k*, q) >= (log(n/(n+1)) - log(1-w)) / (2M) - 1
// is reported in both readings of M. The proof also needs cos(k*, q) >= 0; violations are counted there only.
struct AttentionWeightBounds {
  std::int64_t pairs = 0;              // n >= 1 and neither k* nor q zero
  std::int64_t pairs_nonnegative = 0;  // of these, cos(k*, q) >= 0
  double share_nonnegative = 0;        // that is, the share that the paper's proof covers; NaN without pairs
  BoundRecord stated;                  // M = sup ‖k‖², as the lemma is stated; can fail for M < 1
  BoundRecord proof;                   // M = sup ‖k‖, as the proof's step |k·q| <= M uses it
  BoundRecord
      always;  // (log(n/(n+1)) - log(1-w) - max|k·q|) / ‖k*‖ over all pairs: holds without assumptions
  std::int64_t sampled = 0;  // pairs looked at, if that is not all of them; 0: all
};

// As `mean_key_bounds`, over the causally visible pairs.
AttentionWeightBounds attention_weight_bounds(const MatrixView& keys, const MatrixView& queries,
                                              std::span<const std::int32_t> query_positions,
                                              const BoundOptions& options = {});

// Both, of the same products.
struct PairBounds {
  MeanKeyBounds theorem;
  AttentionWeightBounds lemma;
};
PairBounds pair_bounds(const MatrixView& keys, const MatrixView& queries,
                       std::span<const std::int32_t> query_positions, const BoundOptions& options = {});

}  // namespace keyscope::analysis
