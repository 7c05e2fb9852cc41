#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics.hpp"
#include "app/benchmarks/paired_ratio.hpp"

namespace keyscope::adoption {

// What is measured of an answer, and of which kind it is.
enum class TaskKind {
  kScore,      // a share of 1, larger is better
  kLikelihood  // mean negative log-likelihood of a token in nats, smaller is better; shown as perplexity
};

// What one task lost under a policy and a budget: above 0 where eviction hurts. Examples of which nothing was
// evicted before what is scored can lose nothing, and would only make the loss of the others look smaller:
// what is judged leaves them out.
struct TaskLoss {
  std::string task;
  // Over the affected examples; of a text per affected token: a window's loss over the share of its scored
  // tokens that are. Without samples where nothing was evicted.
  analysis::BootstrapMean loss;
  TaskKind kind = TaskKind::kScore;
  // n_affected over n_scored. At 0, nothing that was measured could have been lost.
  double after_eviction = 1;
  // Examples; of a text, tokens. Affected is what came when something had been evicted.
  std::int64_t n_affected = 0, n_scored = 0;
  analysis::BootstrapMean overall = {};         // the loss over all examples and tokens
  analysis::BootstrapMean full = {1, 1, 1, 0};  // the full cache's score over the affected examples
};

// A score of each example, by data set: all data sets weigh the same, however many examples they have.
using ScoresBySet = std::vector<std::vector<double>>;

bool has_interval(const analysis::BootstrapMean& mean);

// A loss as people read it: points of a score, per cent of a perplexity.
double percent_lost(TaskKind kind, double loss);

// A tolerance in a loss's own unit: 0.02 is two points of a score, and log(1.02) nats, two per cent of a
// perplexity.
double tolerance_of(TaskKind kind, double tolerance);

// Of scores within [0, 1]: the full cache's minus the policy's, example by example, with the bootstrap's
// interval. Where few examples lost anything, that interval says less than it seems (20 times nothing is
// [0, 0]): its high end is at least min(0, itself) + the upper end of the exact binomial interval of as many
// failures as the losses add up to, max(0, n · mean), among n. So it never falls when something is lost. n is
// as many times the size of the smallest data set as there are data sets, which is all examples where they
// are of one size and errs towards caution where they are not.
//   full, under_policy: of the same examples in the same order
//   throws InvalidInput where their numbers differ
//   source of the bound: analysis::clopper_pearson_high
TaskLoss score_loss(std::string task, const ScoresBySet& full, const ScoresBySet& under_policy,
                    const analysis::BootstrapOptions& options);

// Of mean negative log-likelihoods in nats, one a window of text: the policy's minus the full cache's. A loss
// of log(1.02) raises perplexity by two per cent.
TaskLoss likelihood_loss(std::string task, const ScoresBySet& full, const ScoresBySet& under_policy,
                         const analysis::BootstrapOptions& options);

// A policy and a budget, and what is known of them.
struct Candidate {
  std::string policy;
  std::string budget;       // as it was asked for: "512", "25%"
  double memory_share = 1;  // of the full cache's bytes, mean over prompts
  // Time to the first token at the 95th-percentile prompt length, in rounds that all candidates have in
  // common; empty where it was not measured.
  benchmarks::RoundTimes first_token_ms;
  std::vector<TaskLoss> losses;
  double p95_memory_share = 1;  // of the full cache's bytes, at the 95th-percentile prompt length
  std::optional<benchmarks::PairedRatio> first_token_ratio = {};  // against the full cache's
};

// Whether a candidate may be deployed.
enum class Fitness { kFit, kUnfit, kCannotTell };

// "fit", "not fit", "cannot tell".
std::string_view fitness_name(Fitness fitness);

// Below this many examples an interval is too narrow to be believed, whatever it says.
inline constexpr std::int64_t kLeastExamples = 20;

// What needs more of the full cache's bytes, at the 95th-percentile prompt length, saves nothing worth
// having.
inline constexpr double kMostMemory = 0.95;

struct RecommendationRule {
  double tolerance = 0.02;   // the loss that may be borne in any one task
  double confidence = 0.95;  // of the intervals that it is compared with
};

// Whether the full cache itself solves what eviction affected of a task: the interval of its score begins
// above the tolerance. Where it does not, there is nothing that eviction could lose. Of a likelihood always.
bool solved_by_full(const TaskLoss& task, double tolerance);

// Fit where the interval of the loss lies below the tolerance, or ends on it, in every task; not fit where it
// lies above the tolerance in any; else the verdict is "cannot tell", as it is with fewer than kLeastExamples
// affected examples, where nothing was evicted before what is scored, where the full cache does not solve the
// task, or without tasks. Of a likelihood, the tolerance is in per cent of perplexity, not in nats.
Fitness judge_loss(const TaskLoss& task, double tolerance);
Fitness judge(const Candidate& candidate, double tolerance);

// Why there is no verdict on a task: "12 affected examples; at least 20 are needed". Empty where it can.
std::string doubt_text(const TaskLoss& task, double tolerance);

struct Recommendation {
  std::vector<Fitness> fitness;         // of the candidates, in their order
  std::vector<std::size_t> worst_task;  // of each, of the tasks that say anything the one that lost most
  int chosen = -1;                      // index of the candidate to adopt; -1: keep the full cache
};

// Of the fit candidates that need at most kMostMemory, the one that needs the least; of those that need at
// most a hundredth of the full cache more, the one that loses least in its worst task; of those alike, one
// whose first token certainly comes sooner, else the one that was asked for first.
Recommendation recommend(std::span<const Candidate> candidates, const RecommendationRule& rule);

// The rule in words, with its numbers.
std::string rule_text(const RecommendationRule& rule);

// One sentence: what to do, and why.
std::string recommendation_text(const Recommendation& recommendation, std::span<const Candidate> candidates,
                                const RecommendationRule& rule);

}  // namespace keyscope::adoption
