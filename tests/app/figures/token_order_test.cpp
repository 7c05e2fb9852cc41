// Matrices whose rows do not stand at their tokens' positions: the order itself, and the cosines in it.

#include "app/figures/token_order.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> labels_of(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return labels;
}

// Keys 0 and 2 point one way, 1 and 3 another; key 3 was evicted.
FakeRecording two_directions() {
  FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("keydiff", 2);
  recording.keys_of(0, 0, 0) << 1, 0, 0, 1, 2, 0.1F, 0.3F, 3;
  recording.evicted_at(0, 0, 0) = {-1, -1, -1, 1};
  return recording;
}

FigureRequest by_dendrogram() { return {.order = MatrixOrder::kDendrogram}; }

TEST(TokenOrder, NamesAreTheCommandLines) {
  for (const MatrixOrder order : {MatrixOrder::kPosition, MatrixOrder::kDendrogram})
    EXPECT_EQ(parse_order(order_name(order)), order);
  EXPECT_THROW(parse_order("time"), UsageError);
}

TEST(TokenOrder, SaysWhichTokenStandsWhere) {
  const TokenOrder order{{5, 900, 2}, {}, {}, {}};
  EXPECT_EQ(order.token_at(0), 5);
  EXPECT_EQ(order.token_at(2.9), 2);
  EXPECT_EQ(order.token_at(3), -1);
  EXPECT_EQ(order.token_at(-0.1), -1);
  EXPECT_EQ(order.token_at(NAN), -1);
  EXPECT_EQ(order.place_of(900), 1);
  EXPECT_EQ(order.place_of(1), -1);
}

TEST(TokenOrder, BracketsReachFromTheirClustersToWhereTheyMerge) {
  const TokenOrder order{{0, 2, 1}, {}, {}, {{0, 1, 0.25F, 2}, {2, 3, 1.0F, 3}}};
  const auto brackets = brackets_of(order);
  ASSERT_EQ(brackets.size(), 2U);
  EXPECT_EQ(brackets[0].left, 0.5);
  EXPECT_EQ(brackets[0].right, 1.5);
  EXPECT_EQ(brackets[0].height, 0.25);
  EXPECT_EQ(brackets[1].left, 1) << "the middle of the first two";
  EXPECT_EQ(brackets[1].left_height, 0.25);
  EXPECT_EQ(brackets[1].right, 2.5);
  EXPECT_EQ(brackets[1].right_height, 0);
}

TEST(TokenOrder, PlacesOfOneFateAreOneRun) {
  const TokenOrder order{{0, 1, 2, 3}, {}, {1, 1, 0, 1}, {}};
  const auto runs = retention_runs(order);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].last, 2);
  EXPECT_TRUE(runs[0].retained);
  EXPECT_EQ(runs[1].first, 2);
  EXPECT_FALSE(runs[1].retained);
  EXPECT_TRUE(retention_runs({{0, 1}, {}, {}, {}}).empty()) << "where nothing was evicted";
}

TEST(TokenOrder, TicksHaveThePositionsOfTheTokensThere) {
  TokenOrder order;
  for (int place = 0; place < 100; ++place) order.token.push_back(1'000 + 7 * place);
  EXPECT_THAT(labels_of(place_ticks(order, 0, 100, 5)),
              ElementsAre("1,000", "1,140", "1,280", "1,420", "1,560"));
  EXPECT_EQ(place_ticks(order, 0, 100, 5)[1].value, 20.5) << "the middle of place 20";
  EXPECT_THAT(labels_of(place_ticks(order, -40, 30, 5)), ElementsAre("1,000", "1,140"));
  EXPECT_TRUE(place_ticks({}, 0, 1, 5).empty());
}

TEST(TokenOrder, CloseToItEveryPlaceHasItsTokensText) {
  const TokenOrder order{{7, 3, 5}, {" the", "\n", "a_token_that_is_long"}, {}, {}};
  EXPECT_THAT(labels_of(named_places(order, 0, 3)), ElementsAre("·the  7", "↵  3", "a_token_that…  5"));
  EXPECT_THAT(labels_of(named_places(order, 0.9, 2.1)), ElementsAre("↵  3"));
}

TEST(OrderedCosines, PutSimilarKeysSideBySide) {
  const FakeRecording recording = two_directions();
  const Panel panel = cosine_matrix_figure(recording, by_dendrogram()).panels.at(0);
  ASSERT_TRUE(panel.order);
  EXPECT_THAT(panel.order->token, ElementsAre(0, 2, 1, 3)) << "the smaller position leads its cluster";
  EXPECT_THAT(panel.order->retained, ElementsAre(1, 1, 1, 0));
  EXPECT_EQ(panel.order->text.at(1), recording.info()->prompt.token(2));
  ASSERT_EQ(panel.order->merges.size(), 3U);
  EXPECT_EQ(panel.order->merges[0].first, 0) << "places, not positions";
  EXPECT_EQ(panel.order->merges[0].second, 1);
  EXPECT_GT(panel.heatmap->values(0, 1), 0.9F);
  EXPECT_GT(panel.heatmap->values(2, 3), 0.9F);
  EXPECT_LT(panel.heatmap->values(1, 2), 0.2F);
}

TEST(OrderedCosines, AreTheSameCosinesInAnotherOrder) {
  FakeRecording recording(1, 1, 1, 8, 300, 64);
  recording.add_run("keydiff", 40);
  recording.fill(3);
  const RowMatrixD expected = analysis::cosine_matrix(recording.keys_of(0, 0, 0));
  const Panel panel = cosine_matrix_figure(recording, by_dendrogram()).panels.at(0);
  ASSERT_EQ(panel.order->size(), 300);
  EXPECT_TRUE(std::ranges::is_permutation(panel.order->token, std::views::iota(0, 300)));
  for (Eigen::Index row = 0; row < 300; ++row)
    for (Eigen::Index column = 0; column < 300; ++column)
      EXPECT_NEAR(panel.heatmap->values(row, column),
                  expected(panel.order->token_at(static_cast<double>(row)),
                           panel.order->token_at(static_cast<double>(column))),
                  1e-6);
  const auto trace = recording.trace(0, 0, 0);
  for (std::size_t place = 0; place < 300; ++place)
    EXPECT_EQ(panel.order->retained[place] != 0, trace.evicted_at[panel.order->token[place]] < 0);
}

TEST(OrderedCosines, OfRetainedKeysKnowTheirPositionsInTimeOrderToo) {
  const FakeRecording recording = two_directions();
  FigureRequest request{.retained_only = true};
  const Panel in_time = cosine_matrix_figure(recording, request).panels.at(0);
  EXPECT_THAT(in_time.order->token, ElementsAre(0, 1, 2));
  EXPECT_TRUE(in_time.order->merges.empty());
  EXPECT_TRUE(in_time.order->retained.empty()) << "all of them are";
  request.order = MatrixOrder::kDendrogram;
  EXPECT_THAT(cosine_matrix_figure(recording, request).panels.at(0).order->token, ElementsAre(0, 2, 1));
}

TEST(OrderedCosines, OfVeryFewKeys) {
  for (const int n_tokens : {1, 2}) {
    FakeRecording recording(1, 1, 1, 2, n_tokens, 1);
    recording.add_run("none", 0);  // keys are zero: they have no direction
    const Panel panel = cosine_matrix_figure(recording, by_dendrogram()).panels.at(0);
    EXPECT_EQ(panel.order->size(), n_tokens);
    EXPECT_EQ(panel.order->merges.size(), static_cast<std::size_t>(n_tokens - 1));
  }
}

TEST(OrderedCosines, AreRefusedWhereThereAreTooMany) {
  const FakeRecording recording = two_directions();
  FigureRequest request = by_dendrogram();
  request.most_ordered = 3;
  try {
    cosine_matrix_figure(recording, request);
    FAIL() << "four keys were ordered";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("4 keys"), HasSubstr("at most 3")));
  }
  request.retained_only = true;
  EXPECT_EQ(cosine_matrix_figure(recording, request).panels.at(0).order->size(), 3);
}

TEST(OrderedCosines, HaveNoSmallMultiples) {
  FigureRequest request;
  request.name = "cosine-matrix";
  request.order = MatrixOrder::kDendrogram;
  request.grid.emplace();
  EXPECT_THROW(build_figure(two_directions(), request), UsageError);
}

}  // namespace
}  // namespace keyscope::figures
