#include "app/validation/claims.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "app/validation/bound_claims.hpp"

namespace keyscope::validation {
namespace {

using analysis::BootstrapOptions;
using measures::RunMeasures;

// How a mean over the heads of the full-cache run must lie.
struct GeometryClaim {
  const char *id, *question, *source, *quantity;
  Side side;
  bool is_correlation;
};

constexpr std::array<GeometryClaim, 4> kGeometry{{
    {"attention-correlation", "Do keys unlike the mean key receive more attention?", "Section 3.1, Table 3",
     "spearman", Side::kAbove, true},
    {"given-position", "Does that hold with the tokens' positions held fixed?",
     "Section 3.1; the paper does not ask", "spearman_given_position", Side::kAbove, true},
    {"opposed-means", "Do the mean key and the mean query oppose each other?", "Section 3.3, Fig. 14",
     "key_query_mean_cosine", Side::kBelow, false},
    {"top-key-aligned", "Is the key that KeyDiff scores highest aligned with the queries?",
     "Section 3.3, Fig. 16", "top_key_query_cosine", Side::kAbove, false},
}};

// What eviction must do better than another policy.
struct ComparedClaim {
  const char *id, *question, *source, *quantity;
  Side better;       // on which side of zero KeyDiff's difference is an advantage
  bool against_all;  // every other policy, else `sink` and `random`
};

constexpr std::array<ComparedClaim, 4> kCompared{{
    {"log-volume", "Do the keys that KeyDiff retains span more volume than other policies'?",
     "Appendix C.2, Fig. 12", "log_volume_nats", Side::kAbove, true},
    {"attention-kept", "Does KeyDiff keep more of the full cache's attention than sink and random?",
     "Section 3.2", "attention_mass_kept", Side::kAbove, false},
    {"output-error", "Does attention's output change less under KeyDiff than under sink and random?",
     "Section 4.2", "output_error", Side::kBelow, false},
    {"kl-divergence", "Are predictions closer to the full cache's under KeyDiff than under sink and random?",
     "Section 4.2", "kl_nats", Side::kBelow, false},
}};

void judge_claim(Claim& claim) {
  std::vector<Verdict> parts;
  parts.reserve(claim.findings.size());
  for (const Finding& finding : claim.findings) parts.push_back(finding.verdict);
  claim.verdict = judge_all(parts);
}

Finding finding_of(std::string label, const std::vector<double>& samples, Side side,
                   const BootstrapOptions& options) {
  Finding finding;
  finding.label = std::move(label);
  finding.mean = analysis::bootstrap_mean(samples, options);
  finding.verdict = judge(finding.mean, side);
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
  claim.findings.push_back(
      finding_of("all layers", samples_of(records, measured, "none"), about.side, options));
  for (const int layer : layers_of(records))
    claim.by_layer.push_back(finding_of(fmt::format("layer {}", layer),
                                        samples_of(records, measured, "none", layer), about.side, options));
  count_heads(claim, records, measured, about.side);
  if (about.is_correlation)
    claim.remark = fmt::format("as a rank correlation: {}", strength_name(claim.findings.front().mean.mean));
  judge_claim(claim);
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
  for (const std::string& other : compared_runs(about, records)) {
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
  judge_claim(claim);
  return claim;
}

}  // namespace

std::vector<Claim> examine_claims(Records records, const BootstrapOptions& options) {
  std::vector<Claim> claims;
  claims.reserve(kGeometry.size() + kCompared.size() + 2);  // two bounds
  for (const GeometryClaim& about : kGeometry) claims.push_back(examine(about, records, options));
  claims.push_back(examine(kCompared.front(), records, options));
  for (Claim& claim : examine_bounds(records, options)) claims.push_back(std::move(claim));
  for (std::size_t i = 1; i < kCompared.size(); ++i)
    claims.push_back(examine(kCompared[i], records, options));
  return claims;
}

}  // namespace keyscope::validation
