#include "app/measures/score_attention.hpp"

#include <cmath>

#include "analysis/kendall.hpp"
#include "analysis/partial_spearman.hpp"
#include "analysis/rank_correlation.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::measures {
namespace {

std::optional<double> if_defined(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>(value);
}

}  // namespace

ScoreAttention pair_score_attention(const Eigen::VectorXd& key_cosines, const recording::HeadTrace& trace) {
  ScoreAttention pairs;
  for (std::size_t i = 0; i < trace.attention_received.size(); ++i) {
    pairs.score.push_back(-key_cosines[static_cast<Eigen::Index>(i)]);
    pairs.total.push_back(trace.attention_received[i]);
    if (trace.attention_queries[i] == 0) continue;
    pairs.seen.push_back(static_cast<std::int32_t>(i));
    pairs.seen_score.push_back(pairs.score.back());
    pairs.attention_per_query.push_back(trace.attention_received[i] / trace.attention_queries[i]);
  }
  return pairs;
}

ScoreAttention read_score_attention(const recording::Recording& recording, const HeadSelection& selection) {
  const HeadData head = read_head(recording, *recording.info(), selection);
  const Eigen::VectorXd mean = analysis::mean_row(head.keys);
  if (head.keys.rows() == 0 || mean.norm() == 0) return {};
  return pair_score_attention(analysis::cosines_to(head.keys, mean), head.trace);
}

ScoreAgreement correlate(const ScoreAttention& pairs) {
  const std::vector<double> position(pairs.seen.begin(), pairs.seen.end());
  ScoreAgreement agreement;
  agreement.spearman = if_defined(analysis::spearman(pairs.seen_score, pairs.attention_per_query).rho);
  agreement.spearman_total = if_defined(analysis::spearman(pairs.score, pairs.total).rho);
  agreement.spearman_given_position =
      if_defined(analysis::partial_spearman(pairs.seen_score, pairs.attention_per_query, position).rho);
  agreement.kendall = if_defined(analysis::kendall(pairs.seen_score, pairs.attention_per_query).tau);
  return agreement;
}

}  // namespace keyscope::measures
