#include "app/validation/claims.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/validation/made_records.hpp"

namespace keyscope::validation {

namespace {

using measures::HeadMeasures;
using test::made_records;
using test::run_of;
using test::set;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Claim claim_of(const std::vector<PromptRecord>& records, const std::string& id) {
  std::vector<Claim> claims = examine_claims(records, {});
  for (Claim& theorem : examine_theorems(records, {})) claims.push_back(std::move(theorem));
  const auto found = std::ranges::find(claims, id, &Claim::id);
  return found == claims.end() ? Claim{} : *found;
}

TEST(Claims, StandInThePapersOrder) {
  std::vector<std::string> ids;
  for (const Claim& claim : examine_claims(made_records(2), {})) {
    ids.push_back(claim.id);
    EXPECT_EQ(claim.kind, ClaimKind::kEmpirical);
  }
  EXPECT_THAT(ids, ElementsAre("attention-correlation", "given-position", "opposed-means", "top-key-aligned",
                               "log-volume", "attention-kept", "output-error", "kl-divergence"));
}

TEST(Claims, TheoremsStandApart) {
  std::vector<std::string> ids;
  for (const Claim& theorem : examine_theorems(made_records(2), {})) {
    ids.push_back(theorem.id);
    EXPECT_EQ(theorem.kind, ClaimKind::kTheorem);
    EXPECT_EQ(verdict_text(theorem), "holds");
    EXPECT_EQ(verdict_text(theorem.findings.front()), "holds");
  }
  EXPECT_THAT(ids, ElementsAre("theorem-3.2", "lemma-3.1"));
}

TEST(Claims, ACorrelationOfAllPromptsIsSupported) {
  const Claim claim =
      claim_of(made_records(10, [](PromptRecord& record,
                                   int i) { set(record, "none", &HeadMeasures::spearman, 0.5 + 0.01 * i); }),
               "attention-correlation");
  EXPECT_EQ(claim.verdict, Verdict::kSupported);
  EXPECT_NEAR(claim.findings.front().mean.mean, 0.545, 1e-12);
  EXPECT_EQ(claim.findings.front().mean.n_samples, 10);
  EXPECT_EQ(claim.strength, "moderate");
  EXPECT_EQ(verdict_text(claim), "supported, moderate");
  EXPECT_EQ(verdict_text(claim.by_layer[0]), "supported, moderate");
  EXPECT_EQ(claim.heads, 2);
  EXPECT_EQ(claim.heads_agreeing, 2);
}

TEST(Claims, ACorrelationOfTheOtherSignIsNotSupported) {
  const auto records = made_records(
      10, [](PromptRecord& record, int i) { set(record, "none", &HeadMeasures::spearman, -0.5 - 0.01 * i); });
  const Claim claim = claim_of(records, "attention-correlation");
  EXPECT_EQ(claim.verdict, Verdict::kNotSupported);
  EXPECT_EQ(verdict_text(claim), "not supported: moderate, other sign");
  EXPECT_EQ(claim.heads_agreeing, 0);
}

TEST(Claims, PromptsThatDisagreeCannotTell) {
  const auto records = made_records(10, [](PromptRecord& record, int i) {
    set(record, "none", &HeadMeasures::spearman, i % 2 == 0 ? 0.5 : -0.5);
  });
  EXPECT_EQ(claim_of(records, "attention-correlation").verdict, Verdict::kCannotTell);
  EXPECT_EQ(verdict_text(claim_of(records, "attention-correlation")), "cannot tell, at most weak");
}

TEST(Claims, TooFewPromptsCannotTell) {
  const auto records =
      made_records(4, [](PromptRecord& record, int) { set(record, "none", &HeadMeasures::spearman, 0.9); });
  EXPECT_EQ(claim_of(records, "attention-correlation").verdict, Verdict::kCannotTell);
  EXPECT_EQ(verdict_text(claim_of(records, "attention-correlation")), "cannot tell")
      << "nor how strong it is";
}

TEST(Claims, PromptsWithoutAValueDoNotCount) {
  const auto records = made_records(12, [](PromptRecord& record, int i) {
    set(record, "none", &HeadMeasures::spearman, i < 5 ? std::nullopt : std::optional(0.9));
  });
  const Claim claim = claim_of(records, "attention-correlation");
  EXPECT_EQ(claim.findings.front().mean.n_samples, 7);
  EXPECT_EQ(claim.verdict, Verdict::kCannotTell);
}

// Attention alone has sinks in it, and a claim's verdict is of attention as it is.
TEST(Claims, AreJudgedOnceMoreWithoutSinksWhereHeadsHaveSome) {
  for (const Claim& claim : examine_claims(made_records(10), {}))
    EXPECT_FALSE(claim.without_sinks) << claim.id;
  const auto records = made_records(10, [](PromptRecord& record, int i) {
    set(record, "none", &HeadMeasures::learned_sink_share, 0.3);
    set(record, "none", &HeadMeasures::spearman, 0.5 + 0.01 * i);
    set(record, "none", &HeadMeasures::spearman_without_sinks, -0.2 + 0.01 * i);
    for (const char* run : {"keydiff", "sink", "random"})
      set(record, run, &HeadMeasures::attention_mass_kept_without_sinks,
          std::string_view(run) == "keydiff" ? 0.8 + 0.01 * i : 0.6);
  });
  const Claim correlation = claim_of(records, "attention-correlation");
  EXPECT_EQ(correlation.verdict, Verdict::kSupported);
  ASSERT_TRUE(correlation.without_sinks);
  EXPECT_EQ(correlation.without_sinks->verdict, Verdict::kNotSupported);
  EXPECT_NEAR(correlation.without_sinks->findings.at(0).mean.mean, -0.155, 1e-12);
  const Claim kept = claim_of(records, "attention-kept");
  ASSERT_TRUE(kept.without_sinks);
  EXPECT_EQ(kept.without_sinks->verdict, Verdict::kSupported);
  EXPECT_EQ(kept.without_sinks->findings.size(), 2U);
  EXPECT_FALSE(claim_of(records, "output-error").without_sinks) << "nothing was measured of it";
  EXPECT_FALSE(claim_of(records, "opposed-means").without_sinks);
  EXPECT_THAT(claim_of(records, "lemma-3.1").remark, HasSubstr("without the learned sinks"));
}

TEST(Claims, LayersAreJudgedBesideTheWhole) {
  const auto records = made_records(10, [](PromptRecord& record, int) {
    for (HeadMeasures& head : run_of(record, "none").heads)
      head.key_query_mean_cosine = head.layer == 0 ? -0.5 : 0.1;
  });
  const Claim claim = claim_of(records, "opposed-means");
  EXPECT_EQ(claim.verdict, Verdict::kSupported);
  ASSERT_EQ(claim.by_layer.size(), 2u);
  EXPECT_EQ(claim.by_layer[0].verdict, Verdict::kSupported);
  EXPECT_EQ(claim.by_layer[1].verdict, Verdict::kNotSupported);
  EXPECT_EQ(claim.heads_agreeing, 1);
}

// Volumes vary from prompt to prompt far more than policies differ: only pairs can tell.
TEST(Claims, PoliciesAreComparedPromptByPrompt) {
  const auto records = made_records(10, [](PromptRecord& record, int i) {
    for (const char* run : {"keydiff", "sink", "random"})
      set(record, run, &HeadMeasures::log_volume_nats, 100.0 * i);
    set(record, "keydiff", &HeadMeasures::log_volume_nats, 100.0 * i + 1);
  });
  const Claim claim = claim_of(records, "log-volume");
  EXPECT_EQ(claim.verdict, Verdict::kSupported);
  ASSERT_EQ(claim.findings.size(), 2u);
  EXPECT_EQ(claim.findings[0].label, "against sink");
  EXPECT_DOUBLE_EQ(claim.findings[0].mean.low, 1);
  EXPECT_DOUBLE_EQ(claim.findings[0].mean.high, 1);
}

TEST(Claims, OnePolicyThatIsBetterRefutesTheOrder) {
  const auto records = made_records(10, [](PromptRecord& record, int) {
    set(record, "keydiff", &HeadMeasures::log_volume_nats, 5);
    set(record, "random", &HeadMeasures::log_volume_nats, 6);
  });
  const Claim claim = claim_of(records, "log-volume");
  EXPECT_EQ(claim.findings[0].verdict, Verdict::kSupported);
  EXPECT_EQ(claim.findings[1].verdict, Verdict::kNotSupported);
  EXPECT_EQ(claim.verdict, Verdict::kNotSupported);
}

TEST(Claims, OfErrorsLessIsBetter) {
  const auto records = made_records(10, [](PromptRecord& record, int) {
    for (const char* run : {"sink", "random"}) {
      set(record, run, &HeadMeasures::output_error, 0.5);
      run_of(record, run).kl_nats = 0.5;
    }
    set(record, "keydiff", &HeadMeasures::output_error, 0.25);
    run_of(record, "keydiff").kl_nats = 0.75;
  });
  EXPECT_EQ(claim_of(records, "output-error").verdict, Verdict::kSupported);
  EXPECT_EQ(claim_of(records, "kl-divergence").verdict, Verdict::kNotSupported);
}

TEST(Claims, WithoutAPolicyToCompareWithNothingIsTold) {
  const auto records = made_records(10, [](PromptRecord& record, int) { record.runs.resize(2); });
  const Claim claim = claim_of(records, "attention-kept");
  EXPECT_TRUE(claim.findings.empty());
  EXPECT_EQ(claim.verdict, Verdict::kCannotTell);
  EXPECT_FALSE(claim.remark.empty());
}

TEST(Claims, ABoundIsCountedOverAllPromptsAndHeads) {
  const Claim held = claim_of(made_records(3), "theorem-3.2");
  EXPECT_EQ(held.verdict, Verdict::kSupported);
  EXPECT_EQ(held.findings.front().tally->pairs, 60);
  EXPECT_DOUBLE_EQ(held.findings.front().mean.mean, 0.25);

  const auto violated = made_records(3, [](PromptRecord& record, int i) {
    if (i == 2) record.bounds[1].theorem = {10, 1, -0.125};
  });
  const Claim claim = claim_of(violated, "theorem-3.2");
  EXPECT_EQ(claim.verdict, Verdict::kNotSupported);
  EXPECT_TRUE(claim.is_bug);
  EXPECT_EQ(verdict_text(claim), "violated: a bug in Keyscope or in the recording");
  EXPECT_DOUBLE_EQ(*claim.findings.front().tally->min_slack, -0.125);
  EXPECT_EQ(claim.by_layer[0].verdict, Verdict::kSupported);
  EXPECT_EQ(claim.by_layer[1].verdict, Verdict::kNotSupported);
}

TEST(Claims, TheLemmaIsJudgedAsItIsStated) {
  const auto records =
      made_records(3, [](PromptRecord& record, int) { record.bounds[0].lemma_stated.violations = 2; });
  const Claim claim = claim_of(records, "lemma-3.1");
  EXPECT_EQ(claim.verdict, Verdict::kNotSupported);
  EXPECT_FALSE(claim.is_bug) << "its proof does not cover the statement";
  EXPECT_THAT(verdict_text(claim), HasSubstr("fails as stated"));
  EXPECT_THAT(claim.remark, HasSubstr("0 of 60 pairs violate it"));
}

// What the proof does cover cannot fail, even where the statement holds.
TEST(Claims, TheLemmasProofAndTheFormWithoutAssumptionsFailByABugAlone) {
  for (BoundTally BoundTallies::*tally : {&BoundTallies::lemma_proof, &BoundTallies::lemma_always}) {
    const auto records =
        made_records(3, [&](PromptRecord& record, int) { (record.bounds[0].*tally).violations = 1; });
    const Claim claim = claim_of(records, "lemma-3.1");
    EXPECT_EQ(claim.verdict, Verdict::kNotSupported);
    EXPECT_TRUE(claim.is_bug);
    EXPECT_EQ(verdict_text(claim), "violated: a bug in Keyscope or in the recording");
  }
}

TEST(Claims, ABoundThatNeverAppliesCannotTell) {
  const auto records = made_records(3, [](PromptRecord& record, int) {
    for (BoundTallies& head : record.bounds) head.theorem = {};
  });
  EXPECT_EQ(claim_of(records, "theorem-3.2").verdict, Verdict::kCannotTell);
  EXPECT_EQ(verdict_text(claim_of(records, "theorem-3.2")), "never applied");
}

using analysis::BootstrapMean;

constexpr auto kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Verdict, GoesByWhereTheWholeIntervalLies) {
  const BootstrapMean above{0.2, 0.1, 0.3, 20}, across{0.1, -0.1, 0.3, 20}, below{-0.2, -0.3, -0.1, 20};
  EXPECT_EQ(judge(above, Side::kAbove), Verdict::kSupported);
  EXPECT_EQ(judge(across, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge(below, Side::kAbove), Verdict::kNotSupported);
  EXPECT_EQ(judge(above, Side::kBelow), Verdict::kNotSupported);
  EXPECT_EQ(judge(across, Side::kBelow), Verdict::kCannotTell);
  EXPECT_EQ(judge(below, Side::kBelow), Verdict::kSupported);
}

TEST(Verdict, ZeroIsOnNoClaimedSide) {
  EXPECT_EQ(judge({0.1, 0, 0.2, 20}, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge({-0.1, -0.2, 0, 20}, Side::kAbove), Verdict::kNotSupported);
  EXPECT_EQ(judge({-0.1, -0.2, 0, 20}, Side::kBelow), Verdict::kCannotTell);
  EXPECT_EQ(judge({0.1, 0, 0.2, 20}, Side::kBelow), Verdict::kNotSupported);
  EXPECT_EQ(judge({0, 0, 0, 20}, Side::kAbove), Verdict::kNotSupported);
}

TEST(Verdict, TooFewPromptsSayNothing) {
  EXPECT_EQ(judge({0.2, 0.1, 0.3, kLeastPrompts - 1}, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge({0.2, 0.1, 0.3, kLeastPrompts}, Side::kAbove), Verdict::kSupported);
  EXPECT_EQ(judge({kNaN, kNaN, kNaN, 0}, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge({0.2, kNaN, kNaN, 1}, Side::kBelow), Verdict::kCannotTell);
}

TEST(Verdict, OneViolationRefutesABound) {
  EXPECT_EQ(judge_bound(1000, 0), Verdict::kSupported);
  EXPECT_EQ(judge_bound(1000, 1), Verdict::kNotSupported);
  EXPECT_EQ(judge_bound(0, 0), Verdict::kCannotTell);
}

TEST(Verdict, OfSeveralPartsAllMustBeSupported) {
  using enum Verdict;
  EXPECT_EQ(judge_all(std::array{kSupported, kSupported}), kSupported);
  EXPECT_EQ(judge_all(std::array{kSupported, kCannotTell}), kCannotTell);
  EXPECT_EQ(judge_all(std::array{kCannotTell, kNotSupported, kSupported}), kNotSupported);
  EXPECT_EQ(judge_all({}), kCannotTell);
}

TEST(Verdict, TheRuleSaysWhichEnd) {
  EXPECT_THAT(rule_text(Side::kAbove), HasSubstr("supported if the interval's low end is above 0; not"));
  EXPECT_THAT(rule_text(Side::kBelow), HasSubstr("supported if the interval's high end is below 0; not"));
}

TEST(Verdict, StrengthGoesByTheSizeOfACorrelation) {
  EXPECT_EQ(strength_name(0.05), "negligible");
  EXPECT_EQ(strength_name(-0.2), "weak");
  EXPECT_EQ(strength_name(0.5), "moderate");
  EXPECT_EQ(strength_name(-0.8), "strong");
  EXPECT_EQ(strength_name(0.94), "very strong");
  EXPECT_EQ(strength_name(kNaN), "unknown");
}

TEST(Verdict, StrengthIsThatOfTheWholeInterval) {
  EXPECT_EQ(strength_text({0.3, 0.2, 0.35, 20}), "weak");
  EXPECT_EQ(strength_text({0.38, 0.3, 0.45, 20}), "weak to moderate");
  EXPECT_EQ(strength_text({-0.38, -0.45, -0.3, 20}), "weak to moderate");
  EXPECT_EQ(strength_text({0.05, -0.02, 0.12, 20}), "at most weak");
  EXPECT_EQ(strength_text({0.3, kNaN, kNaN, 1}), "");
}

}  // namespace

}  // namespace keyscope::validation
