#include "app/session/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/catalogue.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/find_text.hpp"
#include "app/measures/token_story.hpp"
#include "app/session/head_points.hpp"
#include "base/json.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const SyntheticRecording& recording() {
  static const SyntheticRecording made({.n_tokens = 320, .block_size = 64, .budget = 128});
  return made;
}

std::vector<std::string> facts(const std::string& name, const MatrixCell& cell, int max_size = 1024) {
  figures::FigureRequest request;
  request.name = name;
  request.runs = {"keydiff"};
  request.max_size = max_size;
  const figures::Figure figure = figures::build_figure(recording(), request);
  return cell_facts(*recording().info(), 1, name, *figure.panels.front().heatmap, cell);
}

std::string text_of(std::int64_t position) {
  return figures::token_label(measures::token_bytes(*recording().info(), 1, position));
}

TEST(CellFacts, OfAttentionSayWhoAttendsToWhom) {
  EXPECT_THAT(
      facts("attention", {200, 7, 0.125F}),
      ElementsAre("query 200  " + text_of(200), "attends to key 7  " + text_of(7), "attention weight 0.125"));
  EXPECT_THAT(facts("attention", {7, 200, NAN}).back(), HasSubstr("not visible"));
}

TEST(CellFacts, OfCosinesNameTwoKeys) {
  EXPECT_THAT(facts("cosine-matrix", {3, 4, -0.5F}),
              ElementsAre(StartsWith("key 3  "), StartsWith("and key 4  "), "cosine of two keys −0.5"));
}

TEST(CellFacts, OfLivesAreATokenAndABlock) {
  EXPECT_THAT(facts("lifespans", {5, 2, NAN}),
              ElementsAre("token 5  " + text_of(5), "during block 2", HasSubstr("not in the cache")));
}

TEST(CellFacts, SayWhereSeveralTokensShareACell) {
  EXPECT_THAT(facts("cosine-matrix", {8, 4, 0.25F}, 80).back(),
              "cosine of two keys 0.25, mean of 4 × 4 cells");
}

recording::TokenText tokens(const std::vector<std::string>& texts) {
  recording::TokenText text;
  text.offset.push_back(0);
  for (const std::string& token : texts) {
    text.id.push_back(1);
    text.text += token;
    text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
  }
  return text;
}

recording::RecordingInfo magic_number() {
  recording::RecordingInfo info;
  info.prompt = tokens({"The", " mag", "ic", "", " number", " is", " magic"});
  info.runs.resize(2);
  info.runs[1].generated = tokens({" ma", "gic"});
  return info;
}

using Matches = std::vector<measures::TextMatch>;

TEST(FindText, ReachesOverTokens) {
  EXPECT_EQ(measures::find_text(magic_number(), 0, "magic"), (Matches{{1, 2}, {6, 6}}));
  EXPECT_EQ(measures::find_text(magic_number(), 0, "icnum"), Matches{});
  EXPECT_EQ(measures::find_text(magic_number(), 0, "ic num"), (Matches{{2, 4}}))
      << "a token without text lies between";
}

TEST(FindText, LooksIntoWhatTheRunGenerated) {
  EXPECT_EQ(measures::find_text(magic_number(), 1, "magic"), (Matches{{1, 2}, {6, 6}, {7, 8}}));
  EXPECT_EQ(measures::find_text(magic_number(), 1, "magic ma"), (Matches{{6, 7}}));
}

TEST(FindText, TakesEitherCase) {
  EXPECT_EQ(measures::find_text(magic_number(), 0, "THE MAGIC"), (Matches{{0, 2}}));
}

TEST(FindText, FindsNoOverlaps) {
  auto repeated = magic_number();
  repeated.prompt = tokens({"aaaa", "a"});
  EXPECT_EQ(measures::find_text(repeated, 0, "aa"), (Matches{{0, 0}, {0, 0}}));
}

TEST(FindText, FindsNothingOfNothing) {
  EXPECT_TRUE(measures::find_text(magic_number(), 0, "").empty());
  auto silent = magic_number();
  silent.prompt = {};
  EXPECT_TRUE(measures::find_text(silent, 0, "magic").empty()) << "no text was recorded";
}

using testing::IsEmpty;

// Tokens 0 to 3 at the corners of a square, evicted where odd, and the query of token 0 in its middle.
figures::Panel square() {
  figures::Panel panel;
  figures::PointSeries queries, evicted, retained, anchor;
  queries.id = "queries";
  queries.x = queries.y = {0.5F};
  queries.token = {0};
  evicted.id = "evicted";
  evicted.x = {1, 0};
  evicted.y = {0, 1};
  evicted.token = {1, 3};
  evicted.value = {10, 30};
  retained.id = "retained";
  retained.x = {0, 1};
  retained.y = {0, 1};
  retained.token = {0, 2};
  retained.value = {0, 20};
  anchor.id = "anchor";
  anchor.x = anchor.y = {0.5F};
  panel.points = {queries, evicted, retained, anchor};
  return panel;
}

std::vector<figures::OutlinePoint> box(double x_low, double x_high, double y_low, double y_high) {
  return {{x_low, y_low}, {x_high, y_low}, {x_high, y_high}, {x_low, y_high}};
}

TEST(TokenSelection, IsOfPanelsWithTokens) {
  EXPECT_TRUE(figures::has_tokens(square()));
  figures::Panel means;
  means.points.push_back(square().points.back());
  EXPECT_FALSE(figures::has_tokens(means));
  EXPECT_FALSE(figures::has_tokens({}));
}

TEST(TokenSelection, HoldsTheKeysInsideABox) {
  EXPECT_THAT(figures::tokens_inside(square(), {}, box(-1, 2, -1, 2)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(figures::tokens_inside(square(), {}, box(-1, 2, 0.5, 2)), ElementsAre(2, 3));
  EXPECT_THAT(figures::tokens_inside(square(), {}, box(2, -1, 2, 0.5)), ElementsAre(2, 3))
      << "drawn backwards";
  EXPECT_THAT(figures::tokens_inside(square(), {}, box(0.4, 0.6, 0.4, 0.6)), IsEmpty())
      << "a query and the anchor";
  EXPECT_THAT(figures::tokens_inside(square(), {"evicted"}, box(-1, 2, -1, 2)), ElementsAre(0, 2))
      << "hidden";
  EXPECT_THAT(figures::tokens_inside(square(), {}, {{-1, -1}, {2, 2}}), IsEmpty()) << "a line holds nothing";
}

TEST(TokenSelection, HoldsTheKeysInsideAnOutlineOfAnyShape) {
  // A triangle around three corners, and an L around all but the upper right one.
  EXPECT_THAT(figures::tokens_inside(square(), {}, {{-0.5, -0.5}, {1.8, -0.5}, {-0.5, 1.8}}),
              ElementsAre(0, 1, 3));
  EXPECT_THAT(figures::tokens_inside(
                  square(), {}, {{-0.5, -0.5}, {1.5, -0.5}, {1.5, 0.5}, {0.5, 0.5}, {0.5, 1.5}, {-0.5, 1.5}}),
              ElementsAre(0, 1, 3));
  // What an outline winds around twice is outside again.
  std::vector<figures::OutlinePoint> twice = box(-1, 2, -1, 2);
  const std::vector<figures::OutlinePoint> half = box(-1, 2, -1, 0.5);
  twice.push_back(twice.front());
  twice.insert(twice.end(), half.begin(), half.end());
  twice.push_back(half.front());
  EXPECT_THAT(figures::tokens_inside(square(), {}, twice), ElementsAre(2, 3));
}

TEST(TokenSelection, WhatIsNotSelectedStandsBackAndIsStillThere) {
  const figures::Panel panel = figures::fade_unselected(square(), {1, 2});
  ASSERT_EQ(panel.points.size(), 7U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(panel.points[i].faded) << "drawn first";
  for (std::size_t i = 3; i < 7; ++i) EXPECT_FALSE(panel.points[i].faded);
  EXPECT_EQ(panel.points[1].id, "evicted");
  EXPECT_THAT(panel.points[1].token, ElementsAre(3));
  EXPECT_THAT(panel.points[1].value, ElementsAre(30));
  EXPECT_EQ(panel.points[4].id, "evicted");
  EXPECT_THAT(panel.points[4].token, ElementsAre(1));
  EXPECT_THAT(panel.points[5].value, ElementsAre(20));
  EXPECT_EQ(panel.points[6].id, "anchor");
}

TEST(TokenSelection, IsSearched) {
  EXPECT_TRUE(figures::contains({1, 5, 9}, 5));
  EXPECT_FALSE(figures::contains({1, 5, 9}, 6));
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The text is shaded by the numbers that the token panel tells.
TEST(TokenValues, AreThoseOfTokenFacts) {
  const SyntheticRecording recording({.n_tokens = 200, .block_size = 64, .budget = 80});
  const auto info = recording.info();
  BasisCache bases;
  const auto points =
      read_head_points(recording, *info, {1, 2, 3}, bases.get(recording, *info, 2, 3), nullptr);
  for (std::int64_t block = 0; block < points->n_blocks(); ++block)
    for (const ShadeChoice& choice : shade_choices()) {
      const auto values = token_values(*info, *points, block, choice.shade);
      ASSERT_EQ(static_cast<std::int64_t>(values.size()), points->seen[block]);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const TokenFacts facts = token_facts(*info, *points, block, static_cast<std::int64_t>(i));
        std::optional<double> expected;
        if (choice.shade == TokenShade::kScore) expected = facts.score;
        if (choice.shade == TokenShade::kAttention) expected = facts.attention_received;
        if (choice.shade == TokenShade::kPerQuery) expected = facts.attention_per_query;
        ASSERT_EQ(std::isnan(values[i]), !expected) << choice.id << " of token " << i;
        if (expected) {
          EXPECT_NEAR(values[i], *expected, 1e-12);
        }
      }
    }
}

TEST(ShadeStrengths, AreShares) {
  EXPECT_EQ(shade_strengths(std::vector<double>{5, 1, 3}), (std::vector<float>{1, 0, 0.5F}));
  EXPECT_EQ(shade_strengths(std::vector<double>{2, kNaN, 9}), (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(shade_strengths(std::vector<double>{4, 4, 4}), (std::vector<float>{0.5F, 0.5F, 0.5F}));
  EXPECT_EQ(shade_strengths(std::vector<double>{7}), std::vector<float>{0});
  EXPECT_TRUE(shade_strengths(std::vector<double>{}).empty());
}

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenTable : public ::testing::Test {
 protected:
  void SetUp() override {
    BasisCache bases;
    points_ = read_head_points(recording_, *info_, {1, 0, 1}, bases.get(recording_, *info_, 0, 1), nullptr);
    tokens_ = token_table(*info_, *points_, 2);
  }

  SyntheticRecording recording_{{.n_tokens = 200, .block_size = 64, .budget = 80}};
  std::shared_ptr<const recording::RecordingInfo> info_ = recording_.info();
  std::shared_ptr<const HeadPoints> points_;
  std::vector<TokenFacts> tokens_;
};

TEST_F(TokenTable, HoldsWhatWasSeen) {
  ASSERT_EQ(tokens_.size(), 192u);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::int32_t gone = points_->trace.evicted_at[i];
    EXPECT_EQ(tokens_[i].position, static_cast<std::int32_t>(i));
    EXPECT_EQ(tokens_[i].retained, gone < 0 || gone > 2);
  }
}

TEST_F(TokenTable, IsTheSameAsCsvAndJson) {
  const std::string csv = tokens_as_csv(*info_, 1, tokens_);
  EXPECT_THAT(csv, StartsWith("position,id,text,"));
  EXPECT_EQ(std::ranges::count(csv, '\r'), 193) << "a line a token, and the names";
  const auto json = parse_json(tokens_as_json(*info_, 1, tokens_, "--run keydiff --block 2"));
  EXPECT_EQ(json.at("selection"), "--run keydiff --block 2");
  ASSERT_EQ(json.at("tokens").size(), 192u);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto& token = json["tokens"][i];
    EXPECT_EQ(token.at("position"), i);
    EXPECT_EQ(token.at("retained"), tokens_[i].retained);
    EXPECT_EQ(token.at("evicted_at").is_null(), !tokens_[i].evicted_at);
    EXPECT_EQ(token.at("score").get<double>(), *tokens_[i].score);
  }
}

TEST_F(TokenTable, QuotesWhatCsvMeansSomethingBy) {
  auto info = *info_;
  info.prompt = {{7, 8}, "a\"b,\n\xff", {0, 5, 6}};
  tokens_.resize(2);
  const std::string csv = tokens_as_csv(info, 1, tokens_);
  EXPECT_THAT(csv, HasSubstr("\"a\"\"b,\n\""));
  EXPECT_THAT(csv, HasSubstr("\"\xEF\xBF\xBD\"")) << "no UTF-8";
  EXPECT_EQ(parse_json(tokens_as_json(info, 1, tokens_, ""))["tokens"][0]["text"], "a\"b,\n");
}

}  // namespace

}  // namespace keyscope::session
