#include "analysis/rank_overlap.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/errors.hpp"
#include "goldens.hpp"

namespace keyscope::analysis {
namespace {

using Ranking = std::vector<std::int32_t>;

TEST(RankOverlap, MatchesItsDefinitionInPython) {
  for (const auto& golden : read_goldens("ranking_goldens.json", "rank_overlap"))
    EXPECT_NEAR(rank_biased_overlap(golden["a"].get<Ranking>(), golden["b"].get<Ranking>(),
                                    golden["p"].get<double>()),
                golden["overlap"].get<double>(), 1e-13)
        << golden.dump();
}

TEST(RankOverlap, WorkedByHand) {
  // Agreements 0 and 1, which then goes on: 1/2 · 0 + 1/4 · 1 + 1/4 · 1.
  EXPECT_NEAR(rank_biased_overlap(Ranking{1, 2}, Ranking{2, 1}, 0.5), 0.5, 1e-15);
  // Agreements 1 and 1/2, which goes on: 1/2 + 1/8 + 1/8.
  EXPECT_NEAR(rank_biased_overlap(Ranking{1, 2}, Ranking{1, 3}, 0.5), 0.75, 1e-15);
}

TEST(RankOverlap, EndsOfTheScale) {
  const Ranking a{5, -3, 8, 1, 0}, b{10, 11, 12, 13, 14};
  for (const double p : {0.1, 0.5, 0.9, 0.999}) {
    EXPECT_NEAR(rank_biased_overlap(a, a, p), 1, 1e-14);
    EXPECT_EQ(rank_biased_overlap(a, b, p), 0);
    EXPECT_NEAR(rank_biased_overlap(a, Ranking{5, -3}, p), 1, 1e-14) << "a prefix agrees as far as it goes";
  }
}

TEST(RankOverlap, IsSymmetricAndBlindToNames) {
  const Ranking a{1, 2, 3, 4, 5, 6, 7}, b{3, 1, 9, 4};
  const double overlap = rank_biased_overlap(a, b, 0.8);
  EXPECT_EQ(rank_biased_overlap(b, a, 0.8), overlap);
  Ranking a_renamed = a, b_renamed = b;
  for (auto& item : a_renamed) item = 1000 - 7 * item;
  for (auto& item : b_renamed) item = 1000 - 7 * item;
  EXPECT_EQ(rank_biased_overlap(a_renamed, b_renamed, 0.8), overlap);
}

TEST(RankOverlap, WeighsTheTopMost) {
  const Ranking order{1, 2, 3, 4, 5, 6}, top_swapped{2, 1, 3, 4, 5, 6}, end_swapped{1, 2, 3, 4, 6, 5};
  EXPECT_LT(rank_biased_overlap(order, top_swapped, 0.9), rank_biased_overlap(order, end_swapped, 0.9));
  EXPECT_LT(rank_biased_overlap(order, top_swapped, 0.5), rank_biased_overlap(order, top_swapped, 0.9));
}

TEST(RankOverlap, IsTheLimitOfLongerLists) {
  // What the extrapolation assumes, written out: both lists end on the same items in the same order.
  const Ranking a{1, 2, 3}, b{2, 1, 3};
  Ranking a_long = a, b_long = b;
  for (std::int32_t item = 4; item < 400; ++item) {
    a_long.push_back(item);
    b_long.push_back(item);
  }
  EXPECT_NEAR(rank_biased_overlap(a, b, 0.9), rank_biased_overlap(a_long, b_long, 0.9), 1e-12);
}

TEST(RankOverlap, RefusesWhatIsNoRanking) {
  const Ranking a{1, 2}, none;
  EXPECT_TRUE(std::isnan(rank_biased_overlap(a, none, 0.5)));
  EXPECT_TRUE(std::isnan(rank_biased_overlap(none, none, 0.5)));
  EXPECT_THROW(rank_biased_overlap(a, Ranking{1, 1}, 0.5), InvalidInput);
  for (const double p : {0.0, 1.0, -0.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(rank_biased_overlap(a, a, p), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
