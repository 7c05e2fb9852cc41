#include "app/benchmarks/sweep.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/benchmarks/scoring.hpp"

namespace keyscope::benchmarks {
namespace {

using capture::Schedule;

Sweep make_sweep() {
  Sweep sweep;
  sweep.policies = {"none", "keydiff:recent=0.1"};
  sweep.budgets = {8, 16};
  sweep.blocks = {4, 2};
  sweep.n_tokens = {32};
  sweep.schedules = {Schedule::kBlock, Schedule::kLayer};
  return sweep;
}

TEST(Sweep, RunsEveryCombinationAndNoneOnceForAllBudgets) {
  const auto cases = cases_of(make_sweep());
  EXPECT_EQ(cases.size(), 2u * 2u * 3u);
  EXPECT_EQ(std::ranges::count(cases, 0, &Case::budget), 4);
  EXPECT_EQ(row_of(cases[0]).budget, std::nullopt);
  EXPECT_EQ(row_of(cases[1]).policy, "keydiff:recent=0.1");
  EXPECT_EQ(row_of(cases[1]).budget, 8);
  EXPECT_EQ(row_of(cases[1]).schedule, "block");
}

TEST(Sweep, ACaseReadsThePromptsFirstTokens) {
  Sweep sweep = make_sweep();
  Case first = cases_of(sweep)[1];
  first.n_tokens = 3;
  EXPECT_EQ(capture_options(first, {7, 8, 9, 10}, sweep).prompt_ids, (std::vector<std::int32_t>{7, 8, 9}));
  first.n_tokens = 5;
  EXPECT_THROW(capture_options(first, {7, 8, 9, 10}, sweep), UsageError);
}

TEST(Sweep, RandomPromptsLieInTheVocabularyAndAreOnesBeginning) {
  const auto longer = random_prompt(500, 40, 3), shorter = random_prompt(20, 40, 3);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  EXPECT_EQ(*std::ranges::min_element(longer), 0);
  EXPECT_EQ(*std::ranges::max_element(longer), 39);
  EXPECT_NE(random_prompt(20, 40, 4), shorter);
}

TEST(Scoring, CountsKeydiffsOperationsAsThePaperDoes) {
  EXPECT_EQ(keydiff_flops(1, 1), 12 + 97 + 3 + 94);
  EXPECT_EQ(keydiff_flops(512, 128), (12 * 128 + 97) * 512 + 3 * 128 + 94);
}

}  // namespace
}  // namespace keyscope::benchmarks
