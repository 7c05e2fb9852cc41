#include "app/validation/claims.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/interval_text.hpp"

namespace keyscope::validation {

namespace {

constexpr const char* kBug = "violated: a bug in Keyscope or in the recording";
constexpr const char* kOnlyAsStated = "fails as stated, where keys are too short for it; holds as proved";

using analysis::BootstrapOptions;
using Tally = BoundTally BoundTallies::*;
using Share = std::optional<double> BoundTallies::*;

BoundTally add_up(Records records, Tally tally, int layer) {
  BoundTally sum;
  for (const PromptRecord& record : records)
    for (const BoundTallies& head : record.bounds) {
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
    for (const BoundTallies& head : record.bounds)
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
  claim.kind = ClaimKind::kTheorem;
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
  fill(claim, records, &BoundTallies::theorem, &BoundTallies::theorem_share, options);
  claim.is_bug = claim.verdict == Verdict::kNotSupported;
  if (claim.is_bug) claim.failure = kBug;
  const auto causal =
      analysis::bootstrap_mean(shares_of(records, &BoundTallies::theorem_share_causal, -1), options);
  claim.remark = fmt::format("of the pairs in which the query sees the key, {} %",
                             mean_text(100 * causal.mean, 100 * causal.low, 100 * causal.high, 1));
  return claim;
}

Claim examine_lemma(Records records, const BootstrapOptions& options) {
  Claim claim;
  claim.id = "lemma-3.1";
  claim.question = "Does Lemma 3.1's bound hold as it is stated, and how often does its proof apply?";
  claim.source = "Lemma 3.1";
  claim.quantity = "share of visible pairs with cos(key, query) >= 0, which the proof needs";
  fill(claim, records, &BoundTallies::lemma_stated, &BoundTallies::lemma_share, options);
  const BoundTally proof = add_up(records, &BoundTallies::lemma_proof, -1);
  const BoundTally always = add_up(records, &BoundTallies::lemma_always, -1);
  claim.is_bug = proof.violations > 0 || always.violations > 0;
  if (claim.is_bug) claim.verdict = Verdict::kNotSupported;
  if (claim.verdict == Verdict::kNotSupported) claim.failure = claim.is_bug ? kBug : kOnlyAsStated;
  claim.remark = fmt::format(
      "stated with M = sup ‖k‖², which the proof uses as sup ‖k‖; read so, {} of {} pairs violate it, and "
      "the form that needs no assumption {} of {}",
      proof.violations, proof.pairs, always.violations, always.pairs);
  if (!samples_of(records, quantity("learned_sink_share"), "none").empty())
    claim.remark +=
        "; weights are taken without the learned sinks, which only lower them, and the bound with them";
  return claim;
}

using measures::RunMeasures;

// How a mean over the heads of the full-cache run must lie.
struct GeometryClaim {
  const char *id, *question, *source, *quantity;
  Side side;
  bool is_correlation;
  const char* without_sinks = nullptr;  // the quantity without learned sinks, where they have a part in it
};

constexpr std::array<GeometryClaim, 4> kGeometry{{
    {"attention-correlation", "Do keys unlike the mean key receive more attention?", "Section 3.1, Table 3",
     "spearman", Side::kAbove, true, "spearman_without_sinks"},
    {"given-position", "Does that hold with the tokens' positions held fixed?",
     "Section 3.1; the paper does not ask", "spearman_given_position", Side::kAbove, true,
     "spearman_given_position_without_sinks"},
    {"opposed-means", "Do the mean key and the mean query oppose each other?", "Section 3.3, Fig. 14",
     "key_query_mean_cosine", Side::kBelow, false},
    {"top-key-aligned", "Is the key that KeyDiff scores highest aligned with the queries?",
     "Section 3.3, Fig. 16", "top_key_query_cosine", Side::kAbove, false},
}};

// What eviction must do better than another policy.
struct ComparedClaim {
  const char *id, *question, *source, *quantity;
  Side better;                          // on which side of zero KeyDiff's difference is an advantage
  bool against_all;                     // every other policy, else `sink` and `random`
  const char* without_sinks = nullptr;  // as above
};

constexpr std::array<ComparedClaim, 4> kCompared{{
    {"log-volume", "Do the keys that KeyDiff retains span more volume than other policies'?",
     "Appendix C.2, Fig. 12", "log_volume_nats", Side::kAbove, true},
    {"attention-kept", "Does KeyDiff keep more of the full cache's attention than sink and random?",
     "Section 3.2", "attention_mass_kept", Side::kAbove, false, "attention_mass_kept_without_sinks"},
    {"output-error", "Does attention's output change less under KeyDiff than under sink and random?",
     "Section 4.2", "output_error", Side::kBelow, false, "output_error_without_sinks"},
    {"kl-divergence", "Are predictions closer to the full cache's under KeyDiff than under sink and random?",
     "Section 4.2", "kl_nats", Side::kBelow, false},
}};

Verdict judge_findings(const std::vector<Finding>& findings) {
  std::vector<Verdict> parts;
  parts.reserve(findings.size());
  for (const Finding& finding : findings) parts.push_back(finding.verdict);
  return judge_all(parts);
}

void judge_without_sinks(Claim& claim, std::vector<Finding> findings) {
  std::erase_if(findings, [](const Finding& finding) { return finding.mean.n_samples == 0; });
  if (findings.empty()) return;  // no head has a sink
  const Verdict verdict = judge_findings(findings);
  std::string strength = findings.front().strength;
  claim.without_sinks = WithoutSinks{verdict, std::move(findings), std::move(strength)};
}

Finding finding_of(std::string label, const std::vector<double>& samples, Side side,
                   const BootstrapOptions& options, bool is_correlation = false) {
  Finding finding;
  finding.label = std::move(label);
  finding.mean = analysis::bootstrap_mean(samples, options);
  finding.verdict = judge(finding.mean, side);
  if (is_correlation && finding.mean.n_samples >= kLeastPrompts)
    finding.strength = strength_text(finding.mean);
  return finding;
}

// Of the heads, how many have a mean over the prompts on that side of zero.
void count_heads(Claim& claim, Records records, const Quantity& quantity, Side side) {
  std::map<std::pair<int, int>, double> sums;
  for (const PromptRecord& record : records)
    if (const RunMeasures* run = record.run("none"))
      for (const auto& head : run->heads)
        if (const auto& value = head.*quantity.of_head) sums[{head.layer, head.kv_head}] += *value;
  claim.heads = std::ssize(sums);
  claim.heads_agreeing = std::ranges::count_if(
      sums, [&](const auto& entry) { return side == Side::kAbove ? entry.second > 0 : entry.second < 0; });
}

Claim examine(const GeometryClaim& about, Records records, const BootstrapOptions& options) {
  const Quantity& measured = quantity(about.quantity);
  Claim claim;
  claim.id = about.id;
  claim.question = about.question;
  claim.source = about.source;
  claim.quantity = measured.title;
  claim.units = measured.units;
  claim.rule = rule_text(about.side);
  const auto finding = [&](std::string label, const Quantity& of, int layer) {
    return finding_of(std::move(label), samples_of(records, of, "none", layer), about.side, options,
                      about.is_correlation);
  };
  claim.findings.push_back(finding("all layers", measured, -1));
  claim.strength = claim.findings.front().strength;
  for (const int layer : layers_of(records))
    claim.by_layer.push_back(finding(fmt::format("layer {}", layer), measured, layer));
  count_heads(claim, records, measured, about.side);
  if (about.without_sinks != nullptr)
    judge_without_sinks(claim, {finding("all layers", quantity(about.without_sinks), -1)});
  claim.verdict = judge_findings(claim.findings);
  return claim;
}

std::vector<std::string> compared_runs(const ComparedClaim& about, Records records) {
  std::vector<std::string> names;
  if (records.empty()) return names;
  for (const RunMeasures& run : records.front().runs)
    if (run.run != "none" && run.run != "keydiff" &&
        (about.against_all || run.run == "sink" || run.run == "random"))
      names.push_back(run.run);
  return names;
}

Claim examine(const ComparedClaim& about, Records records, const BootstrapOptions& options) {
  const Quantity& measured = quantity(about.quantity);
  Claim claim;
  claim.id = about.id;
  claim.question = about.question;
  claim.source = about.source;
  claim.quantity = fmt::format("{}: KeyDiff minus the other, paired", measured.title);
  claim.units = measured.units;
  claim.rule = fmt::format(
      "against each policy: {}; over all: supported if every part is, not supported if "
      "one is not",
      rule_text(about.better));
  std::vector<Finding> without_sinks;
  for (const std::string& other : compared_runs(about, records)) {
    if (about.without_sinks != nullptr)
      without_sinks.push_back(finding_of(
          fmt::format("against {}", other),
          differences_of(records, quantity(about.without_sinks), "keydiff", other), about.better, options));
    claim.findings.push_back(finding_of(fmt::format("against {}", other),
                                        differences_of(records, measured, "keydiff", other), about.better,
                                        options));
    if (measured.of_run != nullptr) continue;
    for (const int layer : layers_of(records))
      claim.by_layer.push_back(finding_of(fmt::format("layer {} against {}", layer, other),
                                          differences_of(records, measured, "keydiff", other, layer),
                                          about.better, options));
  }
  if (claim.findings.empty()) claim.remark = "no policy to compare with was run";
  claim.verdict = judge_findings(claim.findings);
  judge_without_sinks(claim, std::move(without_sinks));
  return claim;
}

}  // namespace

std::vector<Claim> examine_claims(Records records, const BootstrapOptions& options) {
  std::vector<Claim> claims;
  claims.reserve(kGeometry.size() + kCompared.size());
  for (const GeometryClaim& about : kGeometry) claims.push_back(examine(about, records, options));
  for (const ComparedClaim& about : kCompared) claims.push_back(examine(about, records, options));
  return claims;
}

std::vector<Claim> examine_theorems(Records records, const BootstrapOptions& options) {
  return {examine_theorem(records, options), examine_lemma(records, options)};
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSupported:
      return "supported";
    case Verdict::kNotSupported:
      return "not supported";
    case Verdict::kCannotTell:
      break;
  }
  return "cannot tell";
}

std::string_view kind_name(ClaimKind kind) { return kind == ClaimKind::kTheorem ? "theorem" : "empirical"; }

namespace {

std::string with_strength(Verdict verdict, const std::string& strength) {
  const std::string_view name = verdict_name(verdict);
  if (strength.empty()) return std::string(name);
  if (verdict == Verdict::kNotSupported) return fmt::format("{}: {}, other sign", name, strength);
  return fmt::format("{}, {}", name, strength);
}

std::string bound_text(Verdict verdict, const std::string& failure) {
  if (verdict == Verdict::kSupported) return "holds";
  return verdict == Verdict::kCannotTell ? "never applied" : failure;
}

}  // namespace

std::string verdict_text(const Claim& claim) {
  return claim.kind == ClaimKind::kTheorem ? bound_text(claim.verdict, claim.failure)
                                           : with_strength(claim.verdict, claim.strength);
}

std::string verdict_text(const Finding& finding) {
  return finding.tally ? bound_text(finding.verdict, "violated")
                       : with_strength(finding.verdict, finding.strength);
}

std::string verdict_text(const WithoutSinks& without_sinks) {
  return with_strength(without_sinks.verdict, without_sinks.strength);
}

Verdict judge(const analysis::BootstrapMean& mean, Side side) {
  if (mean.n_samples < kLeastPrompts) return Verdict::kCannotTell;
  // Of the interval, the end nearest to zero where the claim holds, and the farthest.
  const double nearest = side == Side::kAbove ? mean.low : -mean.high;
  const double farthest = side == Side::kAbove ? mean.high : -mean.low;
  if (nearest > 0) return Verdict::kSupported;
  return farthest <= 0 ? Verdict::kNotSupported : Verdict::kCannotTell;
}

Verdict judge_bound(std::int64_t pairs, std::int64_t violations) {
  if (violations > 0) return Verdict::kNotSupported;
  return pairs > 0 ? Verdict::kSupported : Verdict::kCannotTell;
}

Verdict judge_all(std::span<const Verdict> parts) {
  if (std::ranges::find(parts, Verdict::kNotSupported) != parts.end()) return Verdict::kNotSupported;
  const bool all = std::ranges::all_of(parts, [](Verdict part) { return part == Verdict::kSupported; });
  return all && !parts.empty() ? Verdict::kSupported : Verdict::kCannotTell;
}

std::string rule_text(Side side) {
  const bool above = side == Side::kAbove;
  return fmt::format(
      "supported if the interval's {} end is {} 0; not supported if its {} end is at or {} 0; else, or with "
      "fewer than {} prompts, cannot tell",
      above ? "low" : "high", above ? "above" : "below", above ? "high" : "low", above ? "below" : "above",
      kLeastPrompts);
}

std::string bound_rule_text() {
  return "holds if no pair violates it; what is proved is violated beyond rounding by a bug alone; never "
         "applied if no pair meets its hypotheses";
}

std::string_view strength_name(double correlation) {
  const double size = std::abs(correlation);
  if (std::isnan(size)) return "unknown";
  if (size < 0.1) return "negligible";
  if (size < 0.4) return "weak";
  if (size < 0.7) return "moderate";
  return size < 0.9 ? "strong" : "very strong";
}

std::string strength_text(const analysis::BootstrapMean& correlation) {
  const double low = correlation.low, high = correlation.high;
  if (std::isnan(low) || std::isnan(high)) return "";
  const auto [smaller, larger] = std::minmax({std::abs(low), std::abs(high)});
  const std::string_view from = strength_name(smaller), to = strength_name(larger);
  if (low < 0 && high > 0) return fmt::format("at most {}", to);
  return from == to ? std::string(to) : fmt::format("{} to {}", from, to);
}

}  // namespace keyscope::validation
