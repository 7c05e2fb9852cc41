#include "app/measures/head_bounds.hpp"

#include <utility>

#include <oneapi/tbb/parallel_for.h>

#include "analysis/theorem_bounds.hpp"
#include "app/measures/head_data.hpp"

namespace keyscope::measures {

HeadBounds measure_bounds(const recording::Recording& recording, int run, int layer, int kv_head,
                          const analysis::BoundOptions& options) {
  const HeadData head = read_head(recording, *recording.info(), {run, layer, kv_head});
  auto [theorem, lemma] = analysis::pair_bounds(head.keys, head.queries, head.query_positions, options);
  return {layer, kv_head, std::move(theorem), std::move(lemma)};
}

std::vector<HeadBounds> measure_all_bounds(const recording::Recording& recording, int run,
                                           const analysis::BoundOptions& options) {
  const auto info = recording.info();
  std::vector<HeadBounds> heads;
  for (const auto& [layer, kv_head] : info->recorded_heads()) heads.push_back({layer, kv_head, {}, {}});
  oneapi::tbb::parallel_for(std::size_t{0}, heads.size(), [&](std::size_t i) {
    heads[i] = measure_bounds(recording, run, heads[i].layer, heads[i].kv_head, options);
  });
  return heads;
}

}  // namespace keyscope::measures
