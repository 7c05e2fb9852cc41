#include "app/results/setting_differences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::results {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

TEST(SettingDifferences, AreASentenceEach) {
  const Json there{{"block", 64}, {"policies", {"keydiff"}}, {"seed", 0}};
  EXPECT_THAT(setting_differences(there, {{"block", 128}, {"policies", {"keydiff", "sink"}}, {"seed", 0}}),
              ElementsAre("block is 64 there and 128 here",
                          R"(policies is ["keydiff"] there and ["keydiff","sink"] here)"));
  EXPECT_THAT(setting_differences(there, there), IsEmpty());
}

TEST(SettingDifferences, WhatIsMissingIsNull) {
  EXPECT_THAT(setting_differences(Json::object(), {{"rows", 3}}),
              ElementsAre("rows is null there and 3 here"));
  EXPECT_THAT(setting_differences({{"rows", 3}}, Json::object()), IsEmpty());
}

}  // namespace
}  // namespace keyscope::results
