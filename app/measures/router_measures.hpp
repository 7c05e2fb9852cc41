#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <Eigen/Core>

#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// How a layer's router spread a run's prompt over its experts.
struct RouterMeasures {
  int layer = 0;
  int n_experts = 0, experts_per_token = 0;
  std::int64_t n_tokens = 0;  // whose experts are known
  // (n_experts) the share of all choices that fell on each expert: they add up to 1, and are 1/n_experts each
  // where the load is even.
  std::vector<double> load;
  std::optional<double> load_gini;            // of these: 0 even, towards 1 where few experts have all
  int n_idle = 0;                             // experts that no token went to
  std::optional<double> router_entropy_nats;  // of the router's shares of all experts, mean over tokens
  std::optional<double> first_expert_weight;  // mean weight of each token's likeliest expert
};

// Over the prompt tokens that the run has seen; none where the layer has no experts, or no token's are known
// (a replayed run).
//   throws FileError as the recording does
std::optional<RouterMeasures> measure_router(const recording::Recording& recording, int run, int layer);

// Whether keys unlike the rest go to the same experts: Kruskal and Wallis's test of -cos(k_i, mean key) of
// one KV head over groups of tokens, by the expert that each token's router in that layer liked best.
struct ExpertDifference {
  std::optional<double> epsilon_squared;  // share of the ranks' variance that lies between experts
  std::optional<double> p_value;          // by 999 permutations
};

//   key_cosines: (n_prompt_seen) cos(k_i, mean key)
//   routing: of the same run and layer
ExpertDifference expert_difference(const Eigen::VectorXd& key_cosines,
                                   const recording::LayerRouting& routing);

}  // namespace keyscope::measures
