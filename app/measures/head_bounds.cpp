#include "app/measures/head_bounds.hpp"

#include <cmath>

#include <oneapi/tbb/parallel_for.h>

#include "analysis/theorem_bounds.hpp"
#include "app/measures/head_data.hpp"

namespace keyscope::measures {

HeadBounds measure_bounds(const recording::Recording& recording, int run, int layer, int kv_head,
                          const analysis::BoundOptions& options) {
  const HeadData head = read_head(recording, *recording.info(), {run, layer, kv_head});
  return {layer, kv_head, analysis::mean_key_bounds(head.keys, head.queries, head.query_positions, options),
          analysis::attention_weight_bounds(head.keys, head.queries, head.query_positions, options)};
}

std::vector<HeadBounds> measure_all_bounds(const recording::Recording& recording, int run,
                                           const analysis::BoundOptions& options) {
  const auto info = recording.info();
  std::vector<HeadBounds> heads;
  for (const int layer : info->layers)
    for (const int kv_head : info->heads.list(info->model.n_kv_heads))
      heads.push_back({layer, kv_head, {}, {}});
  oneapi::tbb::parallel_for(std::size_t{0}, heads.size(), [&](std::size_t i) {
    heads[i] = measure_bounds(recording, run, heads[i].layer, heads[i].kv_head, options);
  });
  return heads;
}

}  // namespace keyscope::measures

namespace keyscope::validation {

namespace {

std::optional<double> if_defined(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>(value);
}

BoundTally tally(std::int64_t pairs, const analysis::BoundRecord& record) {
  return {pairs, record.violations, if_defined(record.min_slack)};
}

}  // namespace

HeadBounds measure_head_bounds(const recording::Recording& recording, int run, int layer, int kv_head) {
  const measures::HeadBounds measured = measures::measure_bounds(recording, run, layer, kv_head);
  const analysis::MeanKeyBounds& theorem = measured.theorem;
  const analysis::AttentionWeightBounds& lemma = measured.lemma;
  HeadBounds bounds;
  bounds.layer = layer;
  bounds.kv_head = kv_head;
  bounds.theorem = {theorem.pairs, theorem.violations, if_defined(theorem.min_slack)};
  bounds.theorem_share = if_defined(theorem.share);
  bounds.theorem_share_causal = if_defined(theorem.share_causal);
  bounds.lemma_stated = tally(lemma.pairs_nonnegative, lemma.stated);
  bounds.lemma_proof = tally(lemma.pairs_nonnegative, lemma.proof);
  bounds.lemma_always = tally(lemma.pairs, lemma.always);
  bounds.lemma_share = if_defined(lemma.share_nonnegative);
  return bounds;
}

}  // namespace keyscope::validation
