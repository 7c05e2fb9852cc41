#include "app/grid/grid_scores.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"
#include "tests/app/grid/made_grid.hpp"

namespace keyscope::grid {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of one scorer and the reference, without protection and with it.
GridScores of_corners(double bare, double scored, double guarded, double both) {
  return made_scores(made_plan({"keydiff", "random"}, {"none", "recent:0.1"}), {4},
                     [=](std::size_t, std::size_t, std::size_t s, std::size_t p, std::size_t) {
                       return s == 0 ? (p == 0 ? scored : both) : (p == 0 ? bare : guarded);
                     });
}

TEST(LeadParts, WorkedByHand) {
  const LeadParts parts = lead_parts(of_corners(0, 10, 20, 50)).front();
  EXPECT_EQ(parts.lead.mean, 50);
  EXPECT_EQ(parts.score_alone.mean, 10);
  EXPECT_EQ(parts.score_protected.mean, 30);
  EXPECT_EQ(parts.protection_alone.mean, 20);
  EXPECT_EQ(parts.protection_scored.mean, 40);
  EXPECT_EQ(parts.score.mean, 20) << "of 10 if it comes first and 30 if it comes second";
  EXPECT_EQ(parts.protection_part.mean, 30);
  EXPECT_EQ(parts.interaction.mean, 20);
  EXPECT_DOUBLE_EQ(parts.share.mean, 0.6);
}

TEST(LeadParts, AScorerThatDoesNothingHasNoPart) {
  const LeadParts parts = lead_parts(of_corners(5, 5, 65, 65)).front();
  EXPECT_EQ(parts.score.mean, 0);
  EXPECT_EQ(parts.protection_part.mean, 60);
  EXPECT_EQ(parts.share.mean, 1);
}

TEST(LeadParts, AProtectionThatDoesNothingHasNoPart) {
  const LeadParts parts = lead_parts(of_corners(5, 65, 5, 65)).front();
  EXPECT_EQ(parts.score.mean, 60);
  EXPECT_EQ(parts.share.mean, 0);
}

TEST(LeadParts, WhereThereIsNoLeadNothingHasAShareOfIt) {
  EXPECT_TRUE(std::isnan(lead_parts(of_corners(50, 40, 50, 40)).front().share.mean));
}

// Points that vary by example: whatever they are, parts add up, by scorer and on the mean.
TEST(LeadParts, AddUpToTheLead) {
  const auto plan = made_plan({"keydiff", "snapkv", "tova", "random"}, {"none", "sinks:4", "recent:0.1"});
  const auto scores = made_scores(
      plan, {12, 7}, [](std::size_t t, std::size_t k, std::size_t s, std::size_t p, std::size_t i) {
        return 100 * analysis::unit_interval(analysis::splitmix((((t * 3 + k) * 5 + s) * 7 + p) * 97 + i));
      });
  const auto parts = lead_parts(scores);
  // (all and two tasks) x (all and two settings) x (all and three scorers), and two protections.
  ASSERT_EQ(parts.size(), 3U * 3 * 4 + 2 * 3);
  for (const LeadParts& one : parts) {
    EXPECT_NEAR(one.lead.mean, one.score.mean + one.protection_part.mean, 1e-9);
    EXPECT_NEAR(one.lead.mean, one.score_alone.mean + one.protection_scored.mean, 1e-9);
    EXPECT_NEAR(one.lead.mean, one.protection_alone.mean + one.score_protected.mean, 1e-9);
    EXPECT_LE(one.score.low, one.score.mean);
    EXPECT_GE(one.score.high, one.score.mean);
  }
  // The mean over all is that of the scorers, and that of the protections.
  double by_scorer = 0, by_protection = 0;
  for (const LeadParts& one : parts) {
    if (one.task || one.setting) continue;
    if (one.scorer) by_scorer += one.score.mean / 3;
    if (one.protection) by_protection += one.score.mean / 2;
  }
  EXPECT_NEAR(by_scorer, parts.front().score.mean, 1e-9);
  EXPECT_NEAR(by_protection, parts.front().score.mean, 1e-9);
}

TEST(LeadParts, TasksWeighTheSameHoweverManyExamplesTheyHave) {
  const auto scores = made_scores(made_plan({"keydiff", "random"}, {"none", "sinks:4"}), {30, 2},
                                  [](std::size_t t, std::size_t, std::size_t s, std::size_t, std::size_t) {
                                    return s == 0 && t == 1 ? 80.0 : 0.0;
                                  });
  EXPECT_DOUBLE_EQ(lead_parts(scores).front().lead.mean, 40);
}

TEST(LeadParts, SayWhyThereAreNone) {
  const auto because = [](std::vector<std::string> scorers, std::vector<std::string> protections,
                          const auto& change) {
    GridPlan plan = made_plan(std::move(scorers), std::move(protections));
    change(plan);
    return no_parts_because(plan);
  };
  const auto nothing = [](GridPlan&) {};
  EXPECT_THAT(because({"keydiff", "random"}, {"none", "sinks:4"}, nothing), IsEmpty());
  EXPECT_THAT(because({"random"}, {"none", "sinks:4"}, nothing), HasSubstr("no scorer but"));
  EXPECT_THAT(because({"keydiff", "random"}, {"none"}, nothing), HasSubstr("no protection but"));
  EXPECT_THAT(because({"keydiff", "tova"}, {"none", "sinks:4"}, [](GridPlan& p) { p.reference.reset(); }),
              HasSubstr("reference is not"));
  EXPECT_THAT(because({"keydiff", "random"}, {"sinks:4", "x"}, [](GridPlan& p) { p.unprotected.reset(); }),
              HasSubstr("\"none\" is not"));
  EXPECT_THAT(because({"keydiff", "random"}, {"none", "sinks:4"},
                      [](GridPlan& p) { p.crossed[Slot::kProtection] = false; }),
              HasSubstr("not crossed"));
}

TEST(GridDifferences, AreThoseOfTheBaseAndMeansOverWhatIsCrossed) {
  const auto scores =
      made_scores(made_plan({"keydiff", "random"}, {"none", "sinks:4", "recent:0.1"}), {3},
                  [](std::size_t, std::size_t k, std::size_t s, std::size_t p, std::size_t i) {
                    return 10.0 * static_cast<double>(p) - (s == 1 ? 5.0 * static_cast<double>(p + 1) : 0) +
                           static_cast<double>(i) * 30 + static_cast<double>(k);
                  });
  const auto differences = grid_differences(scores);
  // Per setting: random at the base and on the mean, each of two protections likewise.
  ASSERT_EQ(differences.size(), 2U * (2 + 4));
  const auto of = [&](std::size_t setting, Slot slot, std::size_t value, std::size_t n_pairs) {
    const auto found = std::ranges::find_if(differences, [&](const GridDifference& one) {
      return one.setting == setting && one.slot == slot && one.value == value && one.n_pairs == n_pairs;
    });
    EXPECT_NE(found, differences.end());
    return *found;
  };
  EXPECT_DOUBLE_EQ(of(0, Slot::kScorer, 1, 1).points.mean, -5);
  EXPECT_DOUBLE_EQ(of(1, Slot::kScorer, 1, 3).points.mean, -10);
  EXPECT_DOUBLE_EQ(of(0, Slot::kProtection, 2, 1).points.mean, 20);
  EXPECT_DOUBLE_EQ(of(0, Slot::kProtection, 2, 2).points.mean, 15);
  // Examples differ by 60 points, their differences not at all: they are paired.
  EXPECT_DOUBLE_EQ(of(0, Slot::kScorer, 1, 1).points.low, -5);
}

// A grid of scorers none of which is better claims a difference once in twenty times, although it looks at
// many; a lead's interval holds its true value, 0, about as often as it says.
TEST(GridDifferences, ClaimSeldomWhereNoPolicyIsBetter) {
  constexpr int kGrids = 60;
  int n_claimed = 0, n_covered = 0;
  std::uint64_t state = 3;
  for (int grid = 0; grid < kGrids; ++grid) {
    const auto scores = made_scores(
        made_plan({"keydiff", "snapkv", "random"}, {"none", "recent:0.1"}), {24, 24}, [&](auto...) {
          const double u = analysis::unit_interval(analysis::splitmix(state += analysis::kSplitmixStep));
          return u < 0.4 ? 100.0 : 0.0;
        });
    const auto differences = grid_differences(scores);
    n_claimed += std::ranges::any_of(differences,
                                     [](const GridDifference& one) { return one.test.adjusted_p < 0.05; });
    const LeadParts lead = lead_parts(scores).front();
    n_covered += lead.lead.low <= 0 && lead.lead.high >= 0;
  }
  EXPECT_LE(n_claimed, 9);   // 3 expected, with a standard deviation of 1.7
  EXPECT_GE(n_covered, 51);  // 57 expected
}

// Results as an evaluation has them, of prompts of 40 tokens.
std::vector<evaluation::ExampleResult> made_results(std::size_t n_examples,
                                                    const evaluation::Settings& settings,
                                                    const auto& scores) {
  std::vector<evaluation::ExampleResult> results;
  for (std::size_t i = 0; i < n_examples; ++i)
    for (const evaluation::GridPoint& point : evaluation::grid_of(settings)) {
      evaluation::ExampleResult& result = results.emplace_back();
      result.policy = point.policy;
      result.budget_text = point.budget_text;
      result.budget = point.rows_for(40);
      result.block = point.block;
      result.scores = scores(i, point);
    }
  return results;
}

TEST(TaskScores, ArePlacedByPolicyBudgetAndBlock) {
  evaluation::Settings settings;
  settings.policies = evaluation::parse_policies({"keydiff", "random"});
  settings.budgets = evaluation::parse_budgets({"10", "50%"});
  settings.blocks = {4, 8};
  const auto score_of = [](std::size_t example, const evaluation::GridPoint& point) {
    return (point.policy == "none"     ? 0.9
            : point.policy == "random" ? 0.1
                                       : 0.2) +
           (point.budget_text == "50%" ? 0.02 : 0) + (point.block == 8 ? 0.004 : 0) +
           0.001 * static_cast<double>(example);
  };
  const auto results = made_results(3, settings, [&](std::size_t i, const evaluation::GridPoint& point) {
    return evaluation::Scores{{"exact", 0}, {"recall", score_of(i, point)}};
  });
  adoption::Task task;
  task.name = "niah";
  task.score = "recall";
  task.examples.resize(3);
  const TaskScores scores = task_scores(task, results, settings);
  ASSERT_EQ(scores.methods.size(), 4U);
  const auto labels = grid_settings(settings);
  EXPECT_EQ(labels[0].label, "10, B = 4");
  EXPECT_EQ(labels[3].label, "50%, B = 8");
  EXPECT_DOUBLE_EQ(scores.methods[3][1].points[2], 100 * (0.1 + 0.02 + 0.004 + 0.002));
  EXPECT_DOUBLE_EQ(scores.methods[0][0].points[0], 20);
  EXPECT_DOUBLE_EQ(scores.full[2][1], 100 * (0.9 + 0.004 + 0.001));
  EXPECT_EQ(scores.methods[1][0].budget, 20) << "half of 40 tokens";
  task.examples.resize(2);
  EXPECT_THROW(task_scores(task, results, settings), InvalidInput);
}

TEST(TaskScores, DataSetsWeighTheSame) {
  evaluation::Settings settings;
  settings.policies = evaluation::parse_policies({"keydiff"});
  settings.budgets = evaluation::parse_budgets({"10"});
  settings.blocks = {4};
  const auto results = made_results(4, settings, [](std::size_t i, const evaluation::GridPoint&) {
    return evaluation::Scores{{"score", i == 3 ? 1.0 : 0.0}};
  });
  adoption::Task task;
  task.score = "score";
  task.examples.resize(4);
  task.data_sets = {"qasper", "qasper", "qasper", "trec"};
  const TaskScores scores = task_scores(task, results, settings);
  EXPECT_EQ(mean_points(scores, scores.methods[0][0].points, 0).mean, 50);
}

}  // namespace
}  // namespace keyscope::grid
