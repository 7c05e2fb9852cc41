#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics.hpp"
#include "app/adoption/task_loss.hpp"

namespace keyscope::adoption {

// A policy and a budget, and what is known of them.
struct Candidate {
  std::string policy;
  std::string budget;         // as it was asked for: "512", "25%"
  double memory_share = 1;    // of the full cache's bytes, mean over prompts
  double first_token_ms = 0;  // median at the 95th-percentile prompt length; NaN where it was not measured
  std::vector<TaskLoss> losses;
  double p95_memory_share = 1;  // of the full cache's bytes, at the 95th-percentile prompt length
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
// lies above the tolerance in any; else it cannot be told, nor can it from fewer than kLeastExamples affected
// examples, where nothing was evicted before what is scored, where the full cache does not solve the task, or
// without tasks. Of a likelihood, the tolerance is in per cent of perplexity, not in nats.
Fitness judge_loss(const TaskLoss& task, double tolerance);
Fitness judge(const Candidate& candidate, double tolerance);

// Why it cannot be told of a task: "12 affected examples; at least 20 are needed". Empty where it can.
std::string doubt_text(const TaskLoss& task, double tolerance);

struct Recommendation {
  std::vector<Fitness> fitness;         // of the candidates, in their order
  std::vector<std::size_t> worst_task;  // of each, of the tasks that say anything the one that lost most
  int chosen = -1;                      // index of the candidate to adopt; -1: keep the full cache
};

// Of the fit candidates that need at most kMostMemory, the one that needs the least; of those that need at
// most a hundredth of the full cache more, the one that loses least in its worst task; of those alike, the
// faster.
Recommendation recommend(std::span<const Candidate> candidates, const RecommendationRule& rule);

// The rule in words, with its numbers.
std::string rule_text(const RecommendationRule& rule);

// One sentence: what to do, and why.
std::string recommendation_text(const Recommendation& recommendation, std::span<const Candidate> candidates,
                                const RecommendationRule& rule);

}  // namespace keyscope::adoption
