#include "app/validation/head_bounds.hpp"

#include <cmath>

#include "analysis/theorem_bounds.hpp"
#include "app/measures/head_bounds.hpp"

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
