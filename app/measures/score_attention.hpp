#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <Eigen/Core>

#include "app/measures/head_data.hpp"

namespace keyscope::measures {

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
