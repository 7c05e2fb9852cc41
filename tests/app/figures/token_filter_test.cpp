// Quantities that filter each other.

#include "app/figures/token_filter.hpp"

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<TokenQuantity> position_and_score() {
  return {{"position", "position", {0, 1, 2, 3, 4, 5}}, {"score", "score", {0.1, 0.9, kNone, 0.5, 0.9, 0.2}}};
}

TEST(TokenFilter, LeavesTokensThatLieInEveryChosenPart) {
  auto quantities = position_and_score();
  EXPECT_THAT(chosen_tokens(quantities), ElementsAre(0, 1, 2, 3, 4, 5));
  quantities[1].chosen = Range{0.5, 1};
  EXPECT_THAT(chosen_tokens(quantities), ElementsAre(1, 3, 4)) << "ends are included, without a value none";
  quantities[0].chosen = Range{2, 3};
  EXPECT_THAT(chosen_tokens(quantities), ElementsAre(3));
  quantities[1].chosen = Range{0.95, 1};
  EXPECT_THAT(chosen_tokens(quantities), IsEmpty());
  EXPECT_THAT(chosen_tokens({}), IsEmpty());
}

TEST(TokenFilter, AHistogramIsFilteredByTheOthersAndNotByItself) {
  auto quantities = position_and_score();
  quantities[0].chosen = Range{0, 2};
  const auto of_position = histogram_of(quantities, 0, 3), of_score = histogram_of(quantities, 1, 2);
  EXPECT_THAT(of_position.all, ElementsAre(2, 2, 2));
  EXPECT_THAT(of_position.chosen, ElementsAre(2, 2, 2));
  EXPECT_THAT(of_score.all, ElementsAre(2, 3));
  EXPECT_THAT(of_score.chosen, ElementsAre(1, 1));
  EXPECT_EQ(of_score.range.low, 0.1);
  EXPECT_EQ(of_score.range.high, 0.9);
}

TEST(TokenFilter, ALogarithmicAxisEndsAtTheLeastAboveZero) {
  const TokenQuantity attention{"attention", "attention", {0, 0.001, 0.1, 10}, true};
  const Range range = attention.range();
  EXPECT_EQ(range.low, 0.001);
  EXPECT_EQ(attention.share(range, 0), 0);
  EXPECT_THAT(attention.share(range, 0.1), DoubleNear(0.5, 1e-12));
  for (const double share : {0.0, 0.3, 1.0})
    EXPECT_THAT(attention.share(range, attention.value_at(range, share)), DoubleNear(share, 1e-12));
}

TEST(TokenFilter, OneValueAndNoneAreNoTrouble) {
  const std::vector<TokenQuantity> same{{"a", "a", {3, 3, kNone}}, {"b", "b", {kNone, kNone, kNone}}};
  EXPECT_THAT(histogram_of(same, 0, 4).all, ElementsAre(0, 0, 2, 0));
  EXPECT_THAT(histogram_of(same, 1, 2).all, ElementsAre(0, 0));
}

}  // namespace
}  // namespace keyscope::figures
