#include "app/adoption/adoption.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/adoption/made_adoption.hpp"

namespace keyscope::adoption {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Concentration with_top_share(double share) {
  Concentration concentration;
  concentration.top_share = {share, share, share, 10};
  return concentration;
}

TEST(Adoption, FocusGoesByTheShareOfTheTopPositions) {
  EXPECT_EQ(focus_of(with_top_share(0.5)), Focus::kConcentrated);
  EXPECT_EQ(focus_of(with_top_share(0.49)), Focus::kBetween);
  EXPECT_EQ(focus_of(with_top_share(0.2)), Focus::kBetween);
  EXPECT_EQ(focus_of(with_top_share(0.19)), Focus::kDiffuse);
  EXPECT_THAT(focus_text(with_top_share(0.5)), HasSubstr("receive 50 % of it: concentrated"));
  EXPECT_THAT(focus_text(with_top_share(0.1)), HasSubstr("keydiff"));
}

TEST(Adoption, NamesWhoKeepsWhatIsAlike) {
  EXPECT_THAT(redundancy_text(test::made_adoption()),
              AllOf(HasSubstr("sink at 25% (0.600), sink at 50% (0.600)"), Not(HasSubstr("keydiff"))));
  Adoption alike = test::made_adoption();
  for (Retained& one : alike.retained) one.cosine_change = {0.01, 0, 0.02, 12};
  EXPECT_THAT(redundancy_text(alike), HasSubstr("Under no policy are retained keys more alike"));
  Adoption unknown = alike;
  for (Retained& one : unknown.retained) one.cosine_change = {};
  EXPECT_EQ(redundancy_text(unknown), "");
  // By pairs: a difference that every prompt shows may be less than prompts differ by.
  alike.retained[0].cosine_change = {0.01, 0.001, 0.02, 12};
  EXPECT_THAT(redundancy_text(alike), HasSubstr("under keydiff at 25%"));
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

}  // namespace
}  // namespace keyscope::adoption
