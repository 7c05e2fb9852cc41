#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "analysis/statistics.hpp"
#include "app/adoption/recommendation.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "app/results/run_identity.hpp"
#include "capture/model/config.hpp"

namespace keyscope::adoption {

// What the caches of a set of prompts take, one prompt at a time.
struct CacheMemory {
  double occupancy = 0;             // what is kept after a prompt over the full cache, mean over prompts
  double mean_bytes = 0;            // of keys and values after a prompt, mean over prompts
  std::int64_t p95_length = 0;      // the 95th-percentile prompt length, in tokens
  std::int64_t p95_bytes = 0;       // after a prompt of that length
  std::int64_t p95_peak_bytes = 0;  // the most while it is read: a block comes in before the surplus goes
};

// Of a layer with a sliding window, rows that have left it count neither as kept nor in the full cache.
//   lengths: of the prompts, at least one, each at least 1
//   budget: null for the full cache
//   throws InvalidInput otherwise
//   source: KeyDiff (arXiv 2504.15364), Table 9; quantiles as `analysis::quantiles` defines them
CacheMemory cache_memory(const capture::ModelConfig& config, std::int64_t element_bytes,
                         std::span<const std::int64_t> lengths, const analysis::Budget* budget,
                         std::int64_t block_size);

// One task under the full cache and under every candidate.
struct TaskOutcome {
  std::string name;    // "niah"
  std::string metric;  // "recall"
  TaskKind kind = TaskKind::kScore;
  std::int64_t n_examples = 0;
  std::int64_t n_tokens = 0;  // of all prompts
  analysis::BootstrapMean full;
  std::vector<analysis::BootstrapMean> scores;  // of the candidates, in their order
  std::vector<std::string> bad_rows = {};       // of its files that were skipped, and why
  std::int64_t n_data_sets = 1;  // that the examples are of; scores and losses are means over these
};

// How attention spreads over a prompt's positions under the full cache: means over prompts of means over
// heads.
struct Concentration {
  analysis::BootstrapMean top_share;  // of the 1 % of positions that receive most
  analysis::BootstrapMean gini;
  analysis::BootstrapMean entropy_nats;  // of a query's weights
  analysis::BootstrapMean sink_metric;   // attention that the first position receives
  // What the heads' learned sinks take, and no position; without samples where heads have none.
  analysis::BootstrapMean learned_sink_share = {};
};

// What a cache holds after a prompt: means over prompts of means over heads.
struct Retained {
  analysis::BootstrapMean mean_pairwise_cosine;
  analysis::BootstrapMean log_volume_nats;
  analysis::BootstrapMean attention_mass_kept;  // without samples for the full cache
  analysis::BootstrapMean kl_nats;              // likewise
  // mean_pairwise_cosine less the full cache's, prompt by prompt and head by head; without samples for the
  // full cache.
  analysis::BootstrapMean cosine_change = {};
};

// How the model's keys lie: means over prompts of means over heads, under the full cache.
struct Geometry {
  analysis::BootstrapMean spearman;               // of -cos(key, mean key) with the attention it receives
  analysis::BootstrapMean key_query_mean_cosine;  // of mean key and mean query
};

// All that an adoption report says. Vectors over candidates are in their order.
struct Adoption {
  results::ModelIdentity model;
  std::int64_t block_size = 0;
  std::uint64_t seed = 0;
  analysis::BootstrapOptions bootstrap;
  RecommendationRule rule;

  std::vector<Candidate> candidates;
  Recommendation recommendation;
  std::vector<TaskOutcome> tasks;

  std::vector<std::int64_t> prompt_lengths;  // of all tasks' examples
  CacheMemory full_memory;
  std::vector<CacheMemory> memory;

  std::int64_t latency_repeat = 0;  // 0: not measured
  benchmarks::MachineLoad latency_load;
  benchmarks::Spread full_first_token_ms;
  std::vector<benchmarks::Spread> first_token_ms;

  std::int64_t n_diagnosed = 0;  // prompts that the rest was measured on; 0: it was not
  std::int64_t n_diagnosed_tokens = 0;
  Concentration concentration;
  Geometry geometry;
  Retained full_retained;
  std::vector<Retained> retained;
};

// Why ratios of times cannot be told, each reason once.
std::vector<std::string> latency_doubts(const Adoption& adoption);

// Whether everything that any task scored came after an eviction under every candidate.
bool all_affected(const Adoption& adoption);

// Of the attention that the first position leaves, the share that the rest of the 1 % of positions with most
// of it receive: (top share - the first position's) / (1 - the first position's). Both are means over heads
// and prompts, so it is a ratio of means; where the first position is not among a head's 1 %, it errs
// downwards, and never below 0.
double share_without_first(const Concentration& concentration);

// How concentrated attention is, by share_without_first: most models look at the first position whatever is
// there, which every policy that keeps it serves alike. From half concentrated, below a fifth diffuse. The
// bounds are a convention, not a finding.
enum class Focus { kConcentrated, kBetween, kDiffuse };
Focus focus_of(const Concentration& concentration);

// What the first position and the others receive, what the focus speaks for, and that accuracy decides.
std::string focus_text(const Concentration& concentration);

// Below this difference of mean cosines, retained keys that are more alike than all keys are waste little.
inline constexpr double kLeastCosineChange = 0.02;

// One sentence about how alike each candidate's retained keys are, against all keys and paired by prompt:
// more alike, so that part of the budget is wasted, where the difference of the mean cosines is at least
// kLeastCosineChange and its whole interval lies above 0; else what was measured instead. Empty where
// nothing was.
std::string redundancy_text(const Adoption& adoption);

// "200 examples", "5 examples of 2 data sets".
std::string examples_text(const TaskOutcome& task);

// One sentence: whether KeyDiff's premise shows in the geometry (unlike keys attract attention, mean key and
// mean query oppose each other), as far as their intervals say.
std::string premise_text(const Geometry& geometry);

}  // namespace keyscope::adoption
