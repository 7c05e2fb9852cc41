#pragma once

#include <string>
#include <vector>

#include "analysis/bootstrap.hpp"

namespace keyscope::adoption {

// What is measured of an answer, and of which kind it is.
enum class TaskKind {
  kScore,      // a share of 1, larger is better
  kLikelihood  // mean negative log-likelihood of a token in nats, smaller is better; told as perplexity
};

// What one task lost under a policy and a budget: above 0 where eviction hurts.
struct TaskLoss {
  std::string task;
  analysis::BootstrapMean loss;
  TaskKind kind = TaskKind::kScore;
  // Of what is scored, the share that comes when something may have been evicted: of examples, those whose
  // prompt and answer may be longer than the budget; of a text's tokens, those behind the block with which it
  // is first exceeded. At 0, nothing that was measured could have been lost.
  double after_eviction = 1;
};

// A score of each example, by data set: all data sets weigh the same, however many examples they have.
using ScoresBySet = std::vector<std::vector<double>>;

// A loss as people are told it: points of a score, per cent of a perplexity.
double percent_lost(TaskKind kind, double loss);

// Of scores within [0, 1]: the full cache's minus the policy's, example by example, with the bootstrap's
// interval. Where no example lost anything, that interval says less than it seems (20 times nothing is
// [0, 0]): its high end is then raised by 1 - ((1 - confidence)/2)^(1/n), the share of losing examples that n
// examples without one do not rule out; n is as many times the size of the smallest data set as there are
// data sets, which is all of them where they are of one size and errs towards caution where they are not.
//   full, under_policy: of the same examples in the same order
//   throws InvalidInput where their numbers differ
//   source of the bound: Clopper and Pearson, Biometrika 26 (1934), for no events in n
TaskLoss score_loss(std::string task, const ScoresBySet& full, const ScoresBySet& under_policy,
                    const analysis::BootstrapOptions& options);

// Of mean negative log-likelihoods in nats, one a window of text: the policy's minus the full cache's. A loss
// of 0.02 raises perplexity by two per cent.
TaskLoss likelihood_loss(std::string task, const ScoresBySet& full, const ScoresBySet& under_policy,
                         const analysis::BootstrapOptions& options);

}  // namespace keyscope::adoption
