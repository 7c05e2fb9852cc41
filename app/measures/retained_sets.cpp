#include "app/measures/retained_sets.hpp"

#include <algorithm>
#include <cmath>

#include <oneapi/tbb/parallel_for.h>

#include "analysis/relaxation_gap.hpp"
#include "analysis/retained_set.hpp"
#include "analysis/similarity.hpp"
#include "app/measures/head_data.hpp"

namespace keyscope::measures {

namespace {

using Eigen::Index;
using recording::Recording;

// Sum and number of the overlaps that exist, entry by entry.
struct MeanOverlap {
  RowMatrixD sum, count;

  explicit MeanOverlap(Index n_runs)
      : sum(RowMatrixD::Zero(n_runs, n_runs)), count(RowMatrixD::Zero(n_runs, n_runs)) {}

  void add(Index a, Index b, double overlap) {
    if (std::isnan(overlap)) return;
    sum(a, b) += overlap;
    count(a, b) += 1;
  }
  void add(const MeanOverlap& other) {
    sum += other.sum;
    count += other.count;
  }
  RowMatrixD mean() const { return sum.cwiseQuotient(count); }  // 0/0 is NaN
};

MeanOverlap overlap_of_layer(const Recording& recording, const std::vector<int>& runs,
                             const std::vector<BlockEnd>& ends, int layer) {
  MeanOverlap overlap(std::ssize(runs));
  const int n_kv_heads = recording.info()->model.heads(layer).n_kv_heads;
  for (int kv_head = 0; kv_head < n_kv_heads; ++kv_head) {
    std::vector<std::vector<std::int32_t>> sets;
    for (std::size_t r = 0; r < runs.size(); ++r)
      sets.push_back(recording::retained_positions(recording.trace(runs[r], layer, kv_head).evicted_at,
                                                   ends[r].n_seen, ends[r].block));
    for (std::size_t a = 0; a < sets.size(); ++a)
      for (std::size_t b = 0; b < sets.size(); ++b)
        overlap.add(static_cast<Index>(a), static_cast<Index>(b), analysis::jaccard(sets[a], sets[b]));
  }
  return overlap;
}

}  // namespace

RetainedOverlap measure_overlap(const Recording& recording, const std::vector<int>& runs,
                                std::int64_t at_block) {
  const auto info = recording.info();
  std::vector<BlockEnd> ends;
  ends.reserve(runs.size());
  for (const int run : runs) ends.push_back(find_block_end(*info, run, at_block));
  std::vector<MeanOverlap> layers(info->layers.size(), MeanOverlap(std::ssize(runs)));
  oneapi::tbb::parallel_for(std::size_t{0}, layers.size(), [&](std::size_t i) {
    layers[i] = overlap_of_layer(recording, runs, ends, info->layers[i]);
  });
  MeanOverlap all(std::ssize(runs));
  RetainedOverlap overlap;
  for (const MeanOverlap& layer : layers) {
    all.add(layer);
    overlap.per_layer.push_back(layer.mean());
  }
  overlap.mean = all.mean();
  return overlap;
}

namespace {

using recording::RecordingInfo;

std::vector<HeadSelection> choose_heads(const RecordingInfo& info, int run, std::int64_t most) {
  std::vector<HeadSelection> all;
  for (const auto& [layer, kv_head] : info.recorded_heads()) all.push_back({run, layer, kv_head});
  const auto n_all = static_cast<std::int64_t>(all.size()), n = std::clamp<std::int64_t>(most, 1, n_all);
  std::vector<HeadSelection> chosen;
  for (std::int64_t i = 0; i < n; ++i) chosen.push_back(all[i * n_all / n]);
  return chosen;
}

SetObjective measure(const Recording& recording, const RecordingInfo& info, const HeadSelection& selection,
                     const BlockEnd& end) {
  SetObjective objective{selection.layer, selection.kv_head};
  const HeadData head = read_head(recording, info, selection, false);
  const auto retained = recording::retained_positions(head.trace.evicted_at, end.n_seen, end.block);
  objective.n_retained = static_cast<std::int64_t>(retained.size());
  if (retained.empty()) return objective;
  std::vector<std::int32_t> all(end.n_seen);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
  const RowMatrixF seen = read_retained_keys(recording, info, selection, head, all);
  objective.retained = analysis::pairwise_cosines(seen(retained, Eigen::all)).sum;
  const auto gap = analysis::relaxation_gap(seen, objective.n_retained);
  objective.at_once = gap.seed_objective;
  objective.best = gap.best_objective;
  objective.optimal = gap.exhaustive;
  objective.converged = gap.converged;
  return objective;
}

}  // namespace

std::vector<SetObjective> measure_set_objectives(const Recording& recording, int run,
                                                 const SetObjectiveOptions& options) {
  const auto info = recording.info();
  const BlockEnd end = find_block_end(*info, run, options.at_block);
  const auto heads = choose_heads(*info, run, options.most_heads);
  std::vector<SetObjective> objectives(heads.size());
  oneapi::tbb::parallel_for(std::size_t{0}, heads.size(),
                            [&](std::size_t i) { objectives[i] = measure(recording, *info, heads[i], end); });
  std::erase_if(objectives, [](const SetObjective& objective) { return objective.n_retained == 0; });
  return objectives;
}

}  // namespace keyscope::measures
