#include "app/measures/quantisation_effect.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "analysis/rank_correlation.hpp"
#include "analysis/retained_set.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::measures {
namespace {

using recording::RecordingInfo;
using recording::RunInfo;
using recording::RunPlan;

bool same_but_for_cache(const RunPlan& a, const RunPlan& b) {
  return a.policy == b.policy && a.parameters == b.parameters && a.budget == b.budget &&
         a.budgets == b.budgets && a.block_size == b.block_size && a.oracle == b.oracle &&
         a.cache_positions == b.cache_positions && a.replayed == b.replayed;
}

std::vector<double> keydiff_scores(const RowMatrixF& keys) {
  const Eigen::VectorXd mean = analysis::mean_row(keys);
  if (mean.norm() == 0) return {};
  const Eigen::VectorXd scores = -analysis::cosines_to(keys, mean);
  return {scores.data(), scores.data() + scores.size()};
}

void compare_keys(const RowMatrixF& keys, const RowMatrixF& other, HeadMeasures& measures) {
  const auto n = std::min(keys.rows(), other.rows());
  if (n == 0) return;
  const Eigen::MatrixXd a = keys.topRows(n).cast<double>(), b = other.topRows(n).cast<double>();
  if (b.norm() > 0) measures.quantised_key_error = (a - b).norm() / b.norm();
  double cosines = 0;
  int n_directed = 0;  // a key of zeros has no direction
  for (Eigen::Index i = 0; i < n; ++i) {
    const double norms = a.row(i).norm() * b.row(i).norm();
    if (norms == 0) continue;
    cosines += a.row(i).dot(b.row(i)) / norms;
    ++n_directed;
  }
  if (n_directed > 0) measures.quantised_key_cosine = cosines / n_directed;
  const auto scores = keydiff_scores(keys.topRows(n)), others = keydiff_scores(other.topRows(n));
  if (!scores.empty() && !others.empty())
    measures.quantised_score_spearman = if_defined(analysis::spearman(scores, others).rho);
}

// Half the sum of what the shares of attention differ by.
std::optional<double> attention_difference(std::span<const double> a, std::span<const double> b) {
  const std::size_t n = std::min(a.size(), b.size());
  const double sum_a = std::accumulate(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), 0.0);
  const double sum_b = std::accumulate(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n), 0.0);
  if (sum_a <= 0 || sum_b <= 0) return std::nullopt;
  double difference = 0;
  for (std::size_t i = 0; i < n; ++i) difference += std::abs(a[i] / sum_a - b[i] / sum_b);
  return difference / 2;
}

}  // namespace

int unquantised_run(const RecordingInfo& info, int run) {
  const RunInfo& quantised = run_of(info, run);
  if (!quantised.plan.cache_format.quantises()) return -1;
  for (std::size_t i = 0; i < info.runs.size(); ++i) {
    const RunInfo& other = info.runs[i];
    if (!other.plan.cache_format.quantises() && other.n_tokens >= info.n_prompt() &&
        same_but_for_cache(quantised.plan, other.plan))
      return static_cast<int>(i);
  }
  return -1;
}

void measure_quantisation(const recording::Recording& recording, const RecordingInfo& info,
                          const HeadSelection& selection, const HeadData& head, const BlockEnd& end,
                          HeadMeasures& measures) {
  if (!run_of(info, selection.run).plan.cache_format.quantises()) return;
  const auto statistics = recording.statistics(selection.run, selection.layer);
  const auto kv_head = static_cast<std::size_t>(selection.kv_head);
  if (kv_head < statistics.held_bytes.size() && statistics.held_bytes[kv_head] > 0) {
    measures.held_bytes = statistics.held_bytes[kv_head];
    measures.packed_bytes = statistics.packed_bytes[kv_head];
  }
  const int partner = unquantised_run(info, selection.run);
  if (partner < 0) return;
  const HeadData other = read_head(recording, info, {partner, selection.layer, selection.kv_head}, false);
  compare_keys(head.keys, other.keys, measures);
  const auto retained = recording::retained_positions(other.trace.evicted_at, end.n_seen, end.block);
  measures.quantised_retained_jaccard = if_defined(analysis::jaccard(measures.retained, retained));
  measures.quantised_attention_difference =
      attention_difference(head.trace.attention_received, other.trace.attention_received);
}

}  // namespace keyscope::measures
