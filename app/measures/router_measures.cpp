#include "app/measures/router_measures.hpp"

#include <algorithm>

#include "analysis/kruskal_wallis.hpp"
#include "analysis/statistics.hpp"
#include "app/measures/head_measures.hpp"

namespace keyscope::measures {

std::optional<RouterMeasures> measure_router(const recording::Recording& recording, int run, int layer) {
  const auto info = recording.info();
  const std::int64_t n_prompt_seen = info->n_prompt_read(run);
  const recording::LayerRouting routing = recording.routing(run, layer);
  RouterMeasures measures;
  measures.layer = layer;
  measures.n_experts = info->n_experts;
  measures.experts_per_token = info->experts_per_token;
  measures.load.assign(info->n_experts, 0);
  double entropy = 0, first_weight = 0;
  for (Eigen::Index token = 0; token < std::min<Eigen::Index>(routing.experts.rows(), n_prompt_seen);
       ++token) {
    if (routing.experts(token, 0) < 0) continue;
    ++measures.n_tokens;
    entropy += static_cast<double>(routing.entropy[token]);
    first_weight += static_cast<double>(routing.weights(token, 0));
    for (const std::int32_t expert : routing.experts.row(token)) ++measures.load[expert];
  }
  if (measures.n_tokens == 0) return std::nullopt;
  const auto n = static_cast<double>(measures.n_tokens);
  measures.n_idle = static_cast<int>(std::ranges::count(measures.load, 0.0));
  for (double& share : measures.load) share /= n * measures.experts_per_token;
  measures.load_gini = if_defined(analysis::gini(measures.load));
  measures.router_entropy_nats = if_defined(entropy / n);
  measures.first_expert_weight = if_defined(first_weight / n);
  return measures;
}

ExpertDifference expert_difference(const Eigen::VectorXd& key_cosines,
                                   const recording::LayerRouting& routing) {
  std::vector<double> distinctiveness;
  std::vector<std::int32_t> experts;
  for (Eigen::Index token = 0; token < std::min(key_cosines.size(), routing.experts.rows()); ++token) {
    const std::int32_t first = routing.experts(token, 0);
    if (first < 0) continue;
    distinctiveness.push_back(-key_cosines[token]);
    experts.push_back(first);
  }
  const analysis::KruskalWallis test = analysis::kruskal_wallis(distinctiveness, experts);
  return {if_defined(test.epsilon_squared), if_defined(test.p_value)};
}

}  // namespace keyscope::measures
