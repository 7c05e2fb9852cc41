#include "app/measures/retained_overlap.hpp"

#include <cmath>

#include <oneapi/tbb/parallel_for.h>

#include "analysis/retained_set.hpp"
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
                             const std::vector<Moment>& moments, int layer) {
  MeanOverlap overlap(std::ssize(runs));
  const int n_kv_heads = recording.info()->model.n_kv_heads;
  for (int kv_head = 0; kv_head < n_kv_heads; ++kv_head) {
    std::vector<std::vector<std::int32_t>> sets;
    for (std::size_t r = 0; r < runs.size(); ++r)
      sets.push_back(recording::retained_positions(recording.trace(runs[r], layer, kv_head).evicted_at,
                                                   moments[r].n_seen, moments[r].block));
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
  std::vector<Moment> moments;
  moments.reserve(runs.size());
  for (const int run : runs) moments.push_back(find_moment(*info, run, at_block));
  std::vector<MeanOverlap> layers(info->layers.size(), MeanOverlap(std::ssize(runs)));
  oneapi::tbb::parallel_for(std::size_t{0}, layers.size(), [&](std::size_t i) {
    layers[i] = overlap_of_layer(recording, runs, moments, info->layers[i]);
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

}  // namespace keyscope::measures
