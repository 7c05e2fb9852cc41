#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// What the registry knows of a policy; `./keyscope capture --help` lists these.
struct PolicyEntry {
  std::string name;
  std::string summary;                   // one line
  std::vector<std::string> option_keys;  // accepted keys, with the values they take; without those of slots
  std::vector<std::string> required;     // those of them that must be given
};

std::vector<PolicyEntry> registered_policies();

// Reads `NAME[:key=value[,key=value...]]`.
//   throws UsageError on an unknown name, an unknown or repeated key, or a value that the policy refuses;
//   the message lists what is accepted
PolicySpec parse_policy(std::string_view text);

// The policy itself, or null for `none`. `seed` serves policies that draw and were given no seed of their
// own.
//   throws UsageError as `parse_policy` does
std::unique_ptr<Policy> make_policy(const PolicySpec& spec, std::uint64_t seed);

// Every option of the policy with its value, defaults included, keys ascending: what a recording stores.
PolicySpec with_defaults(const PolicySpec& spec, std::uint64_t seed);

// More than any cache holds, and few enough to count with.
inline constexpr std::int64_t kMostBudgetRows = std::int64_t{1} << 31;

// "64": rows, kMostBudgetRows at most; "0.25" or "25%": a share.
//   throws UsageError on anything else
Budget parse_budget(std::string_view text);
std::optional<Budget> budget_in(std::string_view text);  // nothing where it is anything else

// Reading the values of a policy's options: the whole text must be the value, with nothing before or after
// it. `key` is one of `spec.options`. All
//   throw UsageError naming policy, key, the value found and what is accepted

// Which of `accepted` the value is, as an index.
std::size_t read_choice(const PolicySpec& spec, std::string_view key,
                        std::initializer_list<std::string_view> accepted);

// A whole number within [least, most], in decimal digits.
std::uint64_t read_whole_number(const PolicySpec& spec, std::string_view key, std::uint64_t least,
                                std::uint64_t most);

// A decimal fraction within [0, 1].
double read_fraction(const PolicySpec& spec, std::string_view key);

// A number that is finite and more than 0.
double read_positive(const PolicySpec& spec, std::string_view key);

// `fraction` of `whole`, halves rounded up. Exact for fractions of up to nine decimals, although 0.29 · 50 is
// less than 14.5 in binary.
std::int64_t round_half_up(double fraction, std::int64_t whole);

// KeyDiff (arXiv 2504.15364): the keys least similar to an anchor stay.
//   anchor=mean            the mean of the raw keys: the paper's experiments
//          normalized-mean the mean of the keys at unit norm: Eq. 8
//          median          the median of each coordinate: Table 15
//          pairwise        -Σ_j cos(k_i, k_j), j = i included: Eq. 7; with metric=cosine only
//   metric=cosine          -cos(k, a)
//          dot             -k·a: Table 16
//          euclidean       ‖k - a‖: Table 16
//   recent=p               the most recent round(p·N) rows stay and count within N; the anchor is still over
//   all
//                          rows: Table 14, Appendix E
// A key or anchor of norm zero has cosine 0: it scores 0, above keys that point along the anchor.
PolicyDefinition keydiff_definition();

// ManifoldKV (arXiv 2602.08343): the keys furthest from the mean key stay.
//   score: ‖k - k̄‖; what `keydiff:metric=euclidean` scores, under the name it is compared by
//   window=w   k̄ is the mean of the w consecutive rows that hold the row, counted from the first row
//              present; 0: of all rows. The paper's WindowedManifoldKV has w = 4096
PolicyDefinition manifold_definition();

// The keys that the others span least stay.
//   score: the statistical leverage kᵀ (KᵀK)⁺ k of the row in the matrix K of all rows, 0 to 1; directions of
//   less than 1e-10 of the largest eigenvalue of KᵀK do not count
PolicyDefinition leverage_definition();

// The rows of most weight in a CUR decomposition's sampling stay.
//   score: ‖k‖² ‖v‖²
//   window=w   each factor as a share of its sum over the w consecutive rows that hold the row; 0: as it is
//   sinks=s    the first s rows stay; window=16,sinks=4 is CurDKV (arXiv 2509.15038) as kvpress has it
PolicyDefinition cur_definition();

// H2O, heavy-hitter oracle (arXiv 2306.14048): what has received most attention stays.
//   score: Σ over all queries so far of the weight on the row, mean over the group's query heads; survivors
//   carry their sums on
//   recent=p      the most recent round(p·N) rows stay and count within N; the original has p = 0.5
//   normalize=1   the sum is divided by the number of queries that could see the row, which takes away the
//                 old rows' advantage
PolicyDefinition h2o_definition();

// Keys of small norm stay (Devoto et al., arXiv 2406.11430).
//   score: -‖k‖ to five significant digits: RoPE keeps norms, so that repeated tokens tie exactly in layer 0,
//   and rounding must not break such ties
//   skip=s   the first s layers are never evicted; the authors' example has 2
PolicyDefinition l2norm_definition();

// The keys that span the largest volume stay, chosen greedily (log-det).
//   Rows are taken one after another, each time the one that raises log det(λI + Σ k kᵀ) over the rows taken
//   so far the most; ties go to the lower row. A row's score is what it raised it by, which never grows from
//   one row to the next, so that the N largest scores are the first N rows taken.
//   ridge=r   λ = r times the mean squared coordinate of the keys
PolicyDefinition logdet_definition();

// The floor that every other policy must beat: each token of each KV head draws one number, uniform over [0,
// 1), and keeps it for the whole run, so that what is retained is at any time a uniform sample of all tokens
// seen.
//   seed=  defaults to the run's
PolicyDefinition random_definition();

// That number: a hash of its four arguments, so that no draw depends on any other or on the order of calls.
double uniform_draw(std::uint64_t seed, int layer, int kv_head, std::int32_t position);

// StreamingLLM's rule (arXiv 2309.17453): the tokens at positions 0 … first-1 stay, and the most recent ones.
// A budget below `first` keeps positions 0 … N-1. A row's score is its position.
PolicyDefinition sink_definition();

// SnapKV (arXiv 2404.14469): what the last queries attend to stays, with its neighbours.
//   score: Σ over the block's last w queries of the weight on the row, mean over the group's query heads,
//   averaged over the rows around it
//   window=w   of a block that is shorter, all its queries
//   kernel=k   odd: rows averaged over, in time order, beyond the ends as zeros; the divisor is always k
//   recent=r   the most recent min(r, N) rows stay and count within N
PolicyDefinition snapkv_definition();

// TOVA (arXiv 2401.06104): the tokens that the block's last query attends to most stay.
//   heads=group  weights averaged over the query heads of each KV head: as the KeyDiff paper does (Appendix
//   A.1)
//         all    over all query heads, one retained set a layer: TOVA's own definition
PolicyDefinition tova_definition();

// LagKV (arXiv 2504.04704): rows that stand out against those after them.
//   After the first rows, partitions of `lag` rows. Per channel (x - min)/(max - min) over the next
//   partition, the deviation over channels, softmax over the partition; mean of the keys' and the values'.
//   score: the row's rank in its partition, as a share; what has no next partition stays, and of fewer than
//   two partitions the most recent
PolicyDefinition lagkv_definition();

// Expected Attention (arXiv 2510.00636): by what queries to come are like if they go on as they were.
//   score: (mean over the group of softmax(k·R̄μ/√d + kᵀR̄ΣR̄ᵀk/2d) + epsilon)·‖v‖; μ, Σ: mean and covariance
//   of all queries so far before rotation, R̄: the mean rotation of the next 512 positions
PolicyDefinition expected_definition();

// CapKV (arXiv 2604.25975): by the volume that values span.
//   score: mean over the group of w vᵀA⁻¹v, w = exp(tau·cos(k, R̄μ)), A = I + Σ w v vᵀ
PolicyDefinition capkv_definition();

// TriAttention (arXiv 2604.04921): by the phases at which the mean query meets a key.
//   score: mean over the offsets o = 1, 2, 4 … 65536 of Σ_f |E q_f||k_f| cos((t + o - p)ω_f + φ_f), and
//   Σ_f (E|q_f| - |E q_f|)|k_f|; before rotation, of all queries so far, t the last row's position
//   group=max   the largest of the query heads' z-scores
//         mean  the mean of their scores
//   file=PATH   means over queries of other texts; none: over all queries so far
PolicyDefinition triattention_definition();

// Compactor (arXiv 2507.08143): by geometry and attention.
//   score: blend·z(leverage of the centred keys before rotation) + z(mean over three rows of ‖v‖ times
//   what the last `window` queries give the row among the 256 rows of its chunk, without √d)
//   blend=budget  1 - N/n, the share of rows that goes
//   sketch=k      leverage, with 0.01 on the Gram matrix's diagonal, of the keys times a Gaussian matrix of k
//                 columns: that of the layer and head, drawn by uniform_draw with kSketchSeed. The authors
//                 have 48; 0: of the keys themselves
PolicyDefinition compactor_definition();
inline constexpr std::uint64_t kSketchSeed = 0;
inline constexpr double kSketchRidge = 1e-2;
inline constexpr std::uint64_t kMostSketch = 1024;

// R-KV (arXiv 2505.24133): attention less redundancy.
//   score: weight·(attention of the last `window` queries, largest of `kernel` rows) - (1 - weight)·softmax
//   of the mean cosine to the other keys, where every row spares the latest key whose cosine is above
//   `threshold`; the last `window` rows stay
PolicyDefinition rkv_definition();

// By the exact change of the last queries' outputs if this row alone went (CAOTE, arXiv 2504.14051, squared).
//   score: mean over the group of Σ over the window of (p/(1 - p))²‖v - o‖²
PolicyDefinition dropkv_definition();

// DefensiveKV's aggregation (arXiv 2510.13334).
//   score: the largest weight that any of the last `window` queries of the group gives the row, and no less
//   than the mean of that over the rows
//   kernel=k   each query's weights averaged over k neighbouring rows first
PolicyDefinition defensive_definition();

// Q-Filters (arXiv 2503.02812): by the direction that a head's queries have in common.
//   score: -f·k; f: the KV head's filter, as QueryDirections makes it
//   file=PATH   of the filters
PolicyDefinition qfilters_definition();

// DuoAttention (arXiv 2410.10819): streaming heads keep the tokens at positions 0 … sinks-1 and the most
// recent ones, as StreamingLLM's rule has it, and the other heads everything, whatever the budget.
//   file=PATH   of which heads stream: 1; 0 keeps everything
PolicyDefinition duo_definition();

}  // namespace keyscope::analysis
