#include "app/adoption/adoption.hpp"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/adoption/made_adoption.hpp"

namespace keyscope::adoption {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Concentration with_top_share(double share, double first = 0) {
  Concentration concentration;
  concentration.top_share = {share, share, share, 10};
  concentration.sink_metric = {first, first, first, 10};
  return concentration;
}

TEST(Adoption, FocusGoesByTheShareOfTheTopPositions) {
  EXPECT_EQ(focus_of(with_top_share(0.5)), Focus::kConcentrated);
  EXPECT_EQ(focus_of(with_top_share(0.49)), Focus::kBetween);
  EXPECT_EQ(focus_of(with_top_share(0.2)), Focus::kBetween);
  EXPECT_EQ(focus_of(with_top_share(0.19)), Focus::kDiffuse);
  EXPECT_THAT(focus_text(with_top_share(0.5)), HasSubstr("receive 50 % (a ratio of means over heads): conc"));
  EXPECT_THAT(focus_text(with_top_share(0.1)), HasSubstr("keydiff"));
}

// 3 % of 36 %.
TEST(Adoption, TheFirstPositionIsNoHeavyHitter) {
  const Concentration sink = with_top_share(0.67, 0.64);
  EXPECT_NEAR(share_without_first(sink), 0.03 / 0.36, 1e-12);
  EXPECT_EQ(focus_of(sink), Focus::kDiffuse);
  EXPECT_THAT(focus_text(sink),
              AllOf(HasSubstr("receive 67 % of it, the first position 64 %, which makes up most of it. Of "
                              "what the first leaves, the others of them receive 8 %"),
                    Not(HasSubstr("h2o"))));
  EXPECT_EQ(focus_of(with_top_share(0.9, 0.64)), Focus::kConcentrated);
  EXPECT_THAT(focus_text(with_top_share(0.9, 0.3)), Not(HasSubstr("most of it.")));
  EXPECT_EQ(share_without_first(with_top_share(0.1, 0.2)), 0);
  EXPECT_EQ(share_without_first(with_top_share(1, 1)), 0);
}

TEST(Adoption, NamesWhoKeepsWhatIsAlike) {
  EXPECT_EQ(redundancy_text(test::made_adoption()),
            "Against all keys (0.400), prompt by prompt and in mean cosine, retained keys are more alike by "
            "0.02 or more, so that part of the budget is wasted, under sink at 25% (0.600), sink at 50% "
            "(0.600); less alike under keydiff at 25% (0.200), keydiff at 50% (0.200)");
  Adoption unknown = test::made_adoption();
  for (Retained& one : unknown.retained) one.cosine_change = {};
  EXPECT_EQ(redundancy_text(unknown), "");
}

TEST(Adoption, SaysWhatWasMeasuredOfLikeness) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Adoption alike = test::made_adoption();
  alike.retained[0].cosine_change = {0.01, 0.001, 0.02, 12};
  alike.retained[1].cosine_change = {0.3, kNaN, kNaN, 1};
  alike.retained[2].cosine_change = {0.01, 0, 0.02, 12};
  alike.retained[3].cosine_change = {0.03, -0.01, 0.07, 12};
  EXPECT_THAT(redundancy_text(alike),
              AllOf(HasSubstr("more alike, but by less than 0.02, under keydiff at 25%"),
                    HasSubstr("not more alike with certainty under sink at 25% (0.600), sink at 50%"),
                    HasSubstr("not distinguished from them, as measured on too few prompts for an interval, "
                              "under keydiff at"),
                    Not(HasSubstr("wasted"))));
}

TEST(Adoption, SaysWhetherThePremiseShows) {
  Geometry geometry = test::made_adoption().geometry;
  EXPECT_THAT(premise_text(geometry), AllOf(HasSubstr("receive more attention here (ρ 0.300"),
                                            HasSubstr("oppose each other (cosine −0.500")));
  geometry.spearman = {-0.3, -0.4, -0.2, 10};
  geometry.key_query_mean_cosine = {0.1, -0.1, 0.3, 10};
  EXPECT_THAT(premise_text(geometry),
              AllOf(HasSubstr("less attention here"), HasSubstr("neither opposed nor aligned")));
}

TEST(Adoption, AMissingIntervalIsSaid) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(premise_text({{-0.044, kNaN, kNaN, 1}, {0.1, kNaN, kNaN, 1}}),
            "Whether keys unlike the rest receive more attention was measured on too few prompts for an "
            "interval (ρ −0.044); whether mean key and mean query oppose each other was measured on too few "
            "prompts for an interval (cosine 0.100)");
}

capture::ModelConfig four_layers() {
  capture::ModelConfig config;
  config.n_layers = 4;
  config.n_heads = 8;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

constexpr std::int64_t kRow = 128;         // key and value, two heads of 16, two bytes each
constexpr std::int64_t kToken = 4 * kRow;  // of all four layers

TEST(CacheMemory, OfTheFullCacheIsEveryToken) {
  const std::array<std::int64_t, 3> lengths{100, 200, 300};
  const auto memory = cache_memory(four_layers(), 2, lengths, nullptr, 64);
  EXPECT_DOUBLE_EQ(memory.occupancy, 1);
  EXPECT_DOUBLE_EQ(memory.mean_bytes, 200.0 * kToken);
  EXPECT_EQ(memory.p95_length, 290);
  EXPECT_EQ(memory.p95_bytes, 290 * kToken);
  EXPECT_EQ(memory.p95_peak_bytes, memory.p95_bytes);
}

// By hand: of 100, 200 and 300 tokens, 150 rows keep 1, 3/4 and 1/2 (Table 9 of the paper).
TEST(CacheMemory, KeepsNoMoreThanTheBudget) {
  const std::array<std::int64_t, 3> lengths{100, 200, 300};
  const analysis::Budget budget = 150;
  const auto memory = cache_memory(four_layers(), 2, lengths, &budget, 64);
  EXPECT_DOUBLE_EQ(memory.occupancy, (1 + 0.75 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(memory.mean_bytes, (100 + 150 + 150) / 3.0 * kToken);
  EXPECT_EQ(memory.p95_bytes, 150 * kToken);
  EXPECT_EQ(memory.p95_peak_bytes, (150 + 64) * kToken);
}

TEST(CacheMemory, AShareFollowsEachPrompt) {
  const std::array<std::int64_t, 2> lengths{100, 400};
  const analysis::Budget budget = analysis::Budget::of_share(0.25);
  const auto memory = cache_memory(four_layers(), 2, lengths, &budget, 64);
  EXPECT_DOUBLE_EQ(memory.occupancy, 0.25);
  EXPECT_DOUBLE_EQ(memory.mean_bytes, (25 + 100) / 2.0 * kToken);
}

TEST(CacheMemory, NeverPeaksAboveThePrompt) {
  const std::array<std::int64_t, 1> lengths{100};
  const analysis::Budget budget = 90;
  EXPECT_EQ(cache_memory(four_layers(), 2, lengths, &budget, 64).p95_peak_bytes, 100 * kToken);
}

// Blocks of 64 and 36: the second comes in when 20 rows are left of the first.
TEST(CacheMemory, PeaksWhereABlockEnds) {
  const std::array<std::int64_t, 1> lengths{100};
  const analysis::Budget budget = 20;
  const auto peak = [&](std::int64_t block) {
    return cache_memory(four_layers(), 2, lengths, &budget, block).p95_peak_bytes / kToken;
  };
  EXPECT_EQ(peak(64), 64);
  EXPECT_EQ(peak(50), 70);
  EXPECT_EQ(peak(std::numeric_limits<std::int64_t>::max()), 100);
}

TEST(CacheMemory, ABudgetOfMoreThanThereIsIsTheFullCache) {
  const std::array<std::int64_t, 1> lengths{100};
  const analysis::Budget budget = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(cache_memory(four_layers(), 2, lengths, &budget, 64).p95_peak_bytes, 100 * kToken);
}

// Two of four layers see 64 tokens: of 128 they keep 64 anyway, which no policy saves.
TEST(CacheMemory, ASlidingWindowIsNoSaving) {
  auto config = four_layers();
  config.layer_windows = {64, 0, 64, 0};
  const std::array<std::int64_t, 1> lengths{128};
  EXPECT_EQ(cache_memory(config, 2, lengths, nullptr, 16).p95_bytes, (64 + 128 + 64 + 128) * kRow);
  const analysis::Budget budget = 96;
  const auto memory = cache_memory(config, 2, lengths, &budget, 16);
  EXPECT_EQ(memory.p95_bytes, (64 + 96 + 64 + 96) * kRow);
  EXPECT_EQ(memory.p95_peak_bytes, (80 + 112 + 80 + 112) * kRow);
  EXPECT_DOUBLE_EQ(memory.occupancy, 320.0 / 384);
}

TEST(CacheMemory, NeedsPrompts) {
  EXPECT_THROW(cache_memory(four_layers(), 2, {}, nullptr, 64), InvalidInput);
  const std::array<std::int64_t, 2> lengths{10, 0};
  EXPECT_THROW(cache_memory(four_layers(), 2, lengths, nullptr, 64), InvalidInput);
}

}  // namespace

}  // namespace keyscope::adoption
