#include "app/grid/grid_plan.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"

namespace keyscope::grid {
namespace {

using ::testing::ElementsAre;

GridChoice made_choice() {
  GridChoice choice;
  choice.values[Slot::kScorer] = {"snapkv:recent=0", "keydiff", "random"};
  choice.values[Slot::kProtection] = {"none", "sinks:4"};
  choice.values[Slot::kGranularity] = {"head", "layer", "page:16"};
  return choice;
}

std::vector<std::string> policies_of(const GridPlan& plan) {
  std::vector<std::string> policies;
  for (const Method& method : plan.methods) policies.push_back(method.policy);
  return policies;
}

TEST(GridPlan, CrossesWhatIsCrossedAndVariesTheRestOneAtATime) {
  const GridPlan plan = plan_grid(made_choice());
  EXPECT_THAT(policies_of(plan), ElementsAre("keydiff", "snapkv:recent=0", "snapkv:protect=sinks:4,recent=0",
                                             "keydiff:granularity=layer", "keydiff:granularity=page:16",
                                             "keydiff:protect=sinks:4", "random", "random:protect=sinks:4"));
  EXPECT_EQ(plan.reference, 2U);
  EXPECT_EQ(plan.unprotected, 0U);
  EXPECT_THAT(plan.values[Slot::kSplit], ElementsAre("uniform"));
}

TEST(GridPlan, WithoutCrossingEverySlotIsVariedAlone) {
  GridChoice choice = made_choice();
  choice.crossed = {};
  // The base, two other scorers, another protection, two other granularities.
  EXPECT_EQ(plan_grid(choice).methods.size(), 6U);
}

TEST(GridPlan, MayCrossAll) {
  GridChoice choice = made_choice();
  choice.crossed = {"scorer", "protect", "granularity", "split"};
  const GridPlan plan = plan_grid(choice);
  EXPECT_EQ(plan.methods.size(), 3U * 2 * 3);
  for (std::size_t i = 0; i < plan.methods.size(); ++i) EXPECT_EQ(plan.find(plan.methods[i].at), i);
}

TEST(GridPlan, TakesSlotsFromTheBase) {
  GridChoice choice = made_choice();
  choice.base = "tova:heads=all,protect=recent:0.1,granularity=layer";
  const GridPlan plan = plan_grid(choice);
  EXPECT_EQ(plan.methods.front().policy, "tova:granularity=layer,heads=all,protect=recent:0.1");
  EXPECT_THAT(plan.values[Slot::kScorer],
              ElementsAre("tova:heads=all", "snapkv:recent=0", "keydiff", "random"));
  EXPECT_THAT(plan.values[Slot::kProtection], ElementsAre("recent:0.1", "none", "sinks:4"));
  EXPECT_EQ(plan.base[Slot::kGranularity], 1U) << "where it was given";
  // 4 scorers x 3 protections, all of layers; two other granularities of the base.
  EXPECT_EQ(plan.methods.size(), 12U + 2);
}

TEST(GridPlan, SaysWhatItDependsOn) {
  const auto json = plan_json(plan_grid(made_choice()));
  EXPECT_EQ(json["base"], "keydiff");
  EXPECT_EQ(json["protect"].size(), 2U);
  EXPECT_EQ(json["crossed"].size(), 2U);
  EXPECT_EQ(json["reference"], "random");
}

TEST(GridPlan, RefusesWhatCannotBe) {
  const auto refuses = [](const auto& change) {
    GridChoice choice = made_choice();
    change(choice);
    EXPECT_THROW(plan_grid(choice), UsageError);
  };
  refuses([](GridChoice& choice) { choice.base = "none"; });
  refuses([](GridChoice& choice) { choice.base = "best"; });
  refuses([](GridChoice& choice) { choice.values[Slot::kScorer] = {"keydiff", "none"}; });
  refuses([](GridChoice& choice) { choice.values[Slot::kScorer] = {"keydiff", "keydiff"}; });
  refuses([](GridChoice& choice) { choice.values[Slot::kScorer] = {"keydiff:protect=sinks:4"}; });
  refuses([](GridChoice& choice) { choice.values[Slot::kProtection] = {"none", "some"}; });
  refuses([](GridChoice& choice) { choice.values[Slot::kGranularity] = {"head", "token"}; });
  refuses([](GridChoice& choice) { choice.crossed = {"block"}; });
  refuses([](GridChoice& choice) { choice.reference = "lru"; });
}

}  // namespace
}  // namespace keyscope::grid
