#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <Eigen/Core>

#include "app/measures/head_data.hpp"
#include "app/measures/router_measures.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// Every number that `analyze` reports and the window shows for one KV head of one run: one code path for
// both.
// Empty optionals are values that do not exist: constant input, an empty set, no `none` run, not recorded.
// Means are over all prompt tokens unless "retained" is said; float64 throughout. Field names are the public
// ones of `analyze --json`.
struct HeadMeasures {
  int layer = 0;
  int kv_head = 0;
  std::vector<std::int32_t> retained;    // positions present at the chosen block, ascending
  std::optional<double> spearman;        // -cos(k_i, mean key) against attention per query that could see i
  std::optional<double> spearman_total;  // the same against the plain sum
  std::optional<double> spearman_given_position;  // the first, with each token's position held fixed
  std::optional<double> kendall;                  // τ-b of the first
  std::optional<double> mean_key_cosine;
  std::optional<double> key_query_mean_cosine;
  std::optional<double> top_key_query_cosine;  // of the key that KeyDiff scores highest with the mean query
  std::optional<double> log_volume_nats;
  std::optional<std::int64_t> rank;
  std::optional<double> regularised_log_volume_nats;
  std::optional<double> participation_ratio;  // of the retained keys, as is the next
  std::optional<double> effective_rank;
  std::optional<double> mean_pairwise_cosine;
  std::optional<double> cosine_objective;  // Σ_{i,j} cos(k_i, k_j) over the retained keys: Eq. A.2
  std::optional<double> attention_mass_kept;
  std::optional<double> output_error;
  std::optional<double> attention_entropy_nats;
  std::optional<double> attention_gini;
  std::optional<double> attention_top_share;
  std::optional<double> sink_metric;
  // Of models whose heads have learned sinks (gpt-oss) alone: the share of the prompt queries' attention that
  // the sinks took, and measures of attention as it would be divided among the tokens without them. The first
  // two of these are of the run `none` alone.
  std::optional<double> learned_sink_share;
  std::optional<double> spearman_without_sinks, spearman_given_position_without_sinks;
  std::optional<double> attention_mass_kept_without_sinks, output_error_without_sinks;
  // Whether keys unlike the rest go to the same experts: see measures::ExpertDifference.
  std::optional<double> expert_epsilon_squared, expert_p_value;
  // Of a quantised run, against the run that is the same but for its cache (see quantisation_effect.hpp).
  std::optional<double> quantised_key_error, quantised_key_cosine, quantised_score_spearman,
      quantised_retained_jaccard, quantised_attention_difference;
  std::optional<std::int64_t> held_bytes, packed_bytes;
  std::optional<std::vector<double>> pca_explained;  // first two ratios
  std::optional<std::int64_t> bound_pairs, bound_pairs_causal, bound_violations, bound_sampled;
  std::optional<double> bound_min_slack, bound_min_slack_exact;
};

// None for NaN.
std::optional<double> if_defined(double value);

struct RunMeasures {
  std::string run;
  std::optional<double> kl_nats;  // teacher-forced mean over the recorded logits, against `none`
  std::optional<double> top1_agreement;
  std::vector<HeadMeasures> heads;
  std::vector<RouterMeasures> routers = {};  // of the measured layers that have experts, with keys or without
};

// What a head's measures come from; those of one part are made together.
enum class Part : std::uint8_t {
  kRetained,      // retained: the positions, which take more memory than all numbers
  kAgreement,     // spearman … mean_key_cosine: keys and attention received
  kQueries,       // key_query_mean_cosine, top_key_query_cosine: keys and all queries
  kExperts,       // expert_…: keys and routing
  kVolume,        // log_volume_nats … effective_rank: of the retained keys
  kPairs,         // mean_pairwise_cosine, cosine_objective: likewise
  kMass,          // attention_mass_kept
  kOutput,        // output_error: attends anew
  kAttention,     // attention_entropy_nats … sink_metric, learned_sink_share
  kWithoutSinks,  // …_without_sinks: weighs all queries and keys again, where heads have learned sinks:
                  // costly
  kQuantisation,  // quantised_…, held_bytes, packed_bytes
  kPca,           // pca_explained
  kBounds,        // bound_…: Theorem 3.2 over all key-query pairs, the costliest
};

// Some of them.
class Parts {
 public:
  constexpr Parts(std::initializer_list<Part> parts) {
    for (const Part part : parts) bits_ |= bit(part);
  }
  static constexpr Parts all() { return Parts((1U << (static_cast<unsigned>(Part::kBounds) + 1)) - 1); }

  constexpr bool has(Part part) const { return (bits_ & bit(part)) != 0; }
  constexpr bool has_any(Parts parts) const { return (bits_ & parts.bits_) != 0; }
  constexpr bool has_all(Parts parts) const { return (parts.bits_ & ~bits_) == 0; }
  constexpr bool empty() const { return bits_ == 0; }

  friend constexpr Parts operator+(Parts a, Parts b) { return Parts(a.bits_ | b.bits_); }
  friend constexpr Parts operator-(Parts a, Parts b) { return Parts(a.bits_ & ~b.bits_); }
  bool operator==(const Parts&) const = default;

 private:
  explicit constexpr Parts(unsigned bits) : bits_(bits) {}
  static constexpr unsigned bit(Part part) { return 1U << static_cast<unsigned>(part); }

  unsigned bits_ = 0;
};

using HeadValue = std::optional<double> HeadMeasures::*;

// The part that a measure comes from.
Part part_of(HeadValue measure);

// A run, at the end of one of its blocks.
struct Moment {
  int run = 0;              // an index into the recording's runs
  std::int64_t block = -1;  // -1: the last prompt block
};

// The measures of one KV head, by the definitions of docs/analyze.md. In detail:
//   Prompt tokens are those that the run has seen so far: all of them unless it was cut short or is still
//   going on. retained, and what is measured of the retained keys (volumes, pairwise cosine), is the cache
//   after the block. attention_mass_kept is Σ attention received by retained prompt tokens / by all prompt
//   tokens seen by then, both as the finished `none` run recorded them. output_error attends with the
//   `none` run's keys and values to prompt tokens, from its queries at the last M prompt positions seen at
//   that block (M: --score-last, default 32) of every query head of the group, causally, by the scale, soft
//   cap and window of the layer, over all keys and over the retained ones; Frobenius norms over all these
//   outputs together. Rows that a sliding window has passed count as retained there: queries that could still
//   see them lost them to no policy. attention_entropy_nats, attention_gini and attention_top_share are means
//   over the group's query heads of what the run recorded (recording::AttentionStatistics); sink_metric is
//   Σ_i A_i0 / T over its T prompt queries. spearman leaves out tokens that no recorded query could see.
//   A learned sink holds a query's weights below a sum of 1, and so what tokens received: the attention that
//   was there to be kept is what tokens received, without the sinks'. The entropy counts the sink's weight,
//   as the softmax has it; Gini coefficient and top share are of positions alone.
//   parts: what is wanted; all else is left empty
//   throws FileError as the recording does, and on keys, queries or values that are not finite; InvalidInput
//   on a block that the run has not done
HeadMeasures measure_head(const recording::Recording& recording, int run, int layer, int kv_head,
                          Parts parts = Parts::all(), std::int64_t at_block = -1);

// The same of several runs, or of several blocks of them: what they have in common is read, and attended to,
// once.
std::vector<HeadMeasures> measure_head(const recording::Recording& recording, std::span<const Moment> moments,
                                       int layer, int kv_head, Parts parts);

// KL divergence and top-1 agreement of one run's logits with those of `none`; heads are left empty.
RunMeasures measure_run(const recording::Recording& recording, int run);

// Whose numbers say whether keys unlike the rest receive the most attention: the finished run `none` where
// there is one, else the run itself. Of one that evicts they are biased, see kBiasedByEviction.
struct HypothesisRun {
  int run = -1;
  bool biased = false;
};
HypothesisRun hypothesis_run(const recording::RecordingInfo& info, int run);

inline constexpr std::string_view kBiasedByEviction =
    "biased by eviction: tokens that went early were seen by few queries, the nearest ones, so that their "
    "attention per query is inflated; capture `none` as well";

// The names of the measures above that a run that evicts gives biased.
inline constexpr std::array<std::string_view, 4> kBiasedMeasures{"spearman", "spearman_total",
                                                                 "spearman_given_position", "kendall"};

// KeyDiff's score, -cos(k_i, mean key), beside the attention received, of one head's prompt tokens.
struct ScoreAttention {
  std::vector<double> score, total;  // of every token: score, and Σ of the weights on it
  // Of the tokens that some recorded query could see, ascending:
  std::vector<std::int32_t> seen;           // positions
  std::vector<double> seen_score;           // as above
  std::vector<double> attention_per_query;  // the sum by the number of queries that could see the token
};

// How the two go together; empty where no correlation exists.
struct ScoreAgreement {
  std::optional<double> spearman;                 // score against attention per query
  std::optional<double> spearman_total;           // against the plain sum, of every token
  std::optional<double> spearman_given_position;  // the first, with each token's position held fixed
  std::optional<double> kendall;                  // τ-b of the first
};

//   key_cosines: (n_prompt_seen) cos(k_i, mean key)
ScoreAttention pair_score_attention(const Eigen::VectorXd& key_cosines, const recording::HeadTrace& trace);

// The same of a recorded head; no tokens where its keys were not recorded or their mean has no direction.
//   throws FileError as read_head
ScoreAttention read_score_attention(const recording::Recording& recording, const HeadSelection& selection);

ScoreAgreement correlate(const ScoreAttention& pairs);

}  // namespace keyscope::measures
