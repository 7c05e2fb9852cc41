#include "app/validation/bound_claims.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace keyscope::validation {
namespace {

using analysis::BootstrapOptions;
using Tally = BoundTally HeadBounds::*;
using Share = std::optional<double> HeadBounds::*;

BoundTally add_up(Records records, Tally tally, int layer) {
  BoundTally sum;
  for (const PromptRecord& record : records)
    for (const HeadBounds& head : record.bounds) {
      if (layer >= 0 && head.layer != layer) continue;
      const BoundTally& one = head.*tally;
      sum.pairs += one.pairs;
      sum.violations += one.violations;
      if (one.min_slack) sum.min_slack = std::min(sum.min_slack.value_or(*one.min_slack), *one.min_slack);
    }
  return sum;
}

// One number a prompt: the mean over the heads of how often the hypotheses apply.
std::vector<double> shares_of(Records records, Share share, int layer) {
  std::vector<double> samples;
  for (const PromptRecord& record : records) {
    double sum = 0;
    int n = 0;
    for (const HeadBounds& head : record.bounds)
      if (const auto& value = head.*share; value && (layer < 0 || head.layer == layer)) {
        sum += *value;
        ++n;
      }
    if (n > 0) samples.push_back(sum / n);
  }
  return samples;
}

Finding finding_of(std::string label, Records records, Tally tally, Share share, int layer,
                   const BootstrapOptions& options) {
  Finding finding;
  finding.label = std::move(label);
  finding.mean = analysis::bootstrap_mean(shares_of(records, share, layer), options);
  finding.tally = add_up(records, tally, layer);
  finding.verdict = judge_bound(finding.tally->pairs, finding.tally->violations);
  return finding;
}

// The rest of a claim whose verdict rests on one inequality over all heads.
void fill(Claim& claim, Records records, Tally tally, Share share, const BootstrapOptions& options) {
  claim.rule = bound_rule_text();
  claim.findings.push_back(finding_of("all layers", records, tally, share, -1, options));
  for (const int layer : layers_of(records))
    claim.by_layer.push_back(
        finding_of(fmt::format("layer {}", layer), records, tally, share, layer, options));
  claim.verdict = claim.findings.front().verdict;
}

Claim examine_theorem(Records records, const BootstrapOptions& options) {
  Claim claim;
  claim.id = "theorem-3.2";
  claim.question = "Does Theorem 3.2's bound hold, and how often does it apply?";
  claim.source = "Theorem 3.2";
  claim.quantity = "share of all pairs of key and query with cos(mean key, query) < 0 < cos(key, query)";
  fill(claim, records, &HeadBounds::theorem, &HeadBounds::theorem_share, options);
  const auto causal =
      analysis::bootstrap_mean(shares_of(records, &HeadBounds::theorem_share_causal, -1), options);
  claim.remark = fmt::format("of the pairs in which the query sees the key, {:.1f} % [{:.1f}, {:.1f}]",
                             100 * causal.mean, 100 * causal.low, 100 * causal.high);
  return claim;
}

Claim examine_lemma(Records records, const BootstrapOptions& options) {
  Claim claim;
  claim.id = "lemma-3.1";
  claim.question = "Does Lemma 3.1's bound hold as it is stated, and how often does its proof apply?";
  claim.source = "Lemma 3.1";
  claim.quantity = "share of visible pairs with cos(key, query) >= 0, which the proof needs";
  fill(claim, records, &HeadBounds::lemma_stated, &HeadBounds::lemma_share, options);
  const BoundTally proof = add_up(records, &HeadBounds::lemma_proof, -1);
  const BoundTally always = add_up(records, &HeadBounds::lemma_always, -1);
  claim.remark = fmt::format(
      "stated with M = sup ‖k‖², which the proof uses as sup ‖k‖; read so, {} of {} pairs violate it, and "
      "the "
      "form that needs no assumption {} of {}",
      proof.violations, proof.pairs, always.violations, always.pairs);
  return claim;
}

}  // namespace

std::vector<Claim> examine_bounds(Records records, const BootstrapOptions& options) {
  return {examine_theorem(records, options), examine_lemma(records, options)};
}

}  // namespace keyscope::validation
