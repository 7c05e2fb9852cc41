#include "app/measures/score_attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::measures {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(ScoreAttention, TokensThatNoQuerySawHaveASumAndNoRate) {
  recording::HeadTrace trace;
  trace.attention_received = {3, 0, 1};
  trace.attention_queries = {4, 0, 2};
  const ScoreAttention pairs = pair_score_attention(Eigen::Vector3d(0.5, -0.25, -1), trace);
  EXPECT_THAT(pairs.score, ElementsAre(-0.5, 0.25, 1));
  EXPECT_THAT(pairs.total, ElementsAre(3, 0, 1));
  EXPECT_THAT(pairs.seen, ElementsAre(0, 2));
  EXPECT_THAT(pairs.seen_score, ElementsAre(-0.5, 1));
  EXPECT_THAT(pairs.attention_per_query, ElementsAre(0.75, 0.5));
  const ScoreAgreement agreement = correlate(pairs);
  EXPECT_THAT(agreement.spearman, testing::Optional(DoubleEq(-1)));
  EXPECT_THAT(agreement.spearman_total, testing::Optional(DoubleEq(-0.5))) << "ranks 1 2 3 against 3 1 2";
}

TEST(ScoreAttention, WhatHasNoCorrelationHasNone) {
  const ScoreAgreement agreement = correlate({});
  EXPECT_FALSE(agreement.spearman || agreement.spearman_total || agreement.spearman_given_position ||
               agreement.kendall);
}

TEST(ScoreAttention, ARecordedHeadAgreesWithItsMeasures) {
  figures::FakeRecording recording(2, 4, 2, 4, 32, 8);
  recording.add_run("none", 0);
  recording.fill(5);
  const ScoreAgreement agreement = correlate(read_score_attention(recording, {0, 1, 1}));
  const HeadMeasures measures = measure_head(recording, 0, 1, 1);
  ASSERT_TRUE(measures.spearman);
  EXPECT_EQ(agreement.spearman, measures.spearman);
  EXPECT_EQ(agreement.spearman_total, measures.spearman_total);
  EXPECT_EQ(agreement.spearman_given_position, measures.spearman_given_position);
  EXPECT_EQ(agreement.kendall, measures.kendall);
}

TEST(ScoreAttention, KeysWhoseMeanHasNoDirectionHaveNoScores) {
  figures::FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("none", 0);
  EXPECT_TRUE(read_score_attention(recording, {0, 0, 0}).score.empty());
}

}  // namespace
}  // namespace keyscope::measures
