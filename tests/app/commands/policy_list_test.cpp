#include "app/commands/policy_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::commands {
namespace {

using ::testing::ElementsAre;

TEST(PolicyList, PartsPoliciesButNotTheirOptions) {
  EXPECT_THAT(split_policies({"keydiff,sink"}), ElementsAre("keydiff", "sink"));
  EXPECT_THAT(split_policies({"keydiff:recent=0.1,metric=dot,sink", "h2o"}),
              ElementsAre("keydiff:recent=0.1,metric=dot", "sink", "h2o"));
  EXPECT_THAT(split_policies({"sink,keydiff:recent=0.1"}), ElementsAre("sink", "keydiff:recent=0.1"));
}

// What is no policy is left for whoever reads policies to refuse.
TEST(PolicyList, KeepsWhatIsNone) {
  EXPECT_THAT(split_policies({"metric=dot"}), ElementsAre("metric=dot"));
  EXPECT_THAT(split_policies({"keydiff", "metric=dot"}), ElementsAre("keydiff", "metric=dot"));
  EXPECT_THAT(split_policies({"keydiff,,sink"}), ElementsAre("keydiff", "", "sink"));
}

}  // namespace
}  // namespace keyscope::commands
