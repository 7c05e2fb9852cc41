// Lanes of tokens and of heads: what a cell says, in which order, and what cannot be.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/measures/token_life.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

FakeRecording two_runs() {
  FakeRecording recording(2, 4, 2, 8, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("sink", 12);
  recording.fill(1);
  return recording;
}

TEST(TokenLivesFigure, HasALaneATokenAndAStateACell) {
  const FakeRecording recording = two_runs();
  const Figure figure = build_figure(recording, {.name = "token-lives", .layer = 1, .kv_head = 1});
  ASSERT_THAT(figure.panels, SizeIs(1));
  const Heatmap& map = *figure.panels.front().heatmap;
  const auto lives = measures::token_lives(recording, {1, 1, 1}, std::atomic<bool>(false));
  ASSERT_EQ(map.values.rows(), std::ssize(lives));
  for (Eigen::Index token = 0; token < map.values.rows(); ++token)
    for (Eigen::Index block = 0; block < map.values.cols(); ++block) {
      const auto state = lives[token].at(block);
      if (state) {
        EXPECT_EQ(map.values(token, block), static_cast<float>(*state));
      } else {
        EXPECT_TRUE(std::isnan(map.values(token, block)));
      }
    }
  EXPECT_THAT(figure.title, HasSubstr("sink, layer 1, KV head 1"));
  EXPECT_EQ(figure.panels.front().note, "");
}

TEST(TokenLivesFigure, ShowsEverySoManiethOfMany) {
  const FakeRecording recording = two_runs();
  const Figure all = build_figure(recording, {.name = "token-lives"});
  const Figure some = build_figure(recording, {.name = "token-lives", .max_size = 4});
  const auto& few = some.panels.front().heatmap->values;
  ASSERT_EQ(few.rows(), 4);
  const auto& many = all.panels.front().heatmap->values;
  for (Eigen::Index row = 0; row < 4; ++row) EXPECT_EQ(few(row, 2), many(10 * row, 4));
  EXPECT_EQ(some.panels.front().note, "one token of 10 and one block of 2 shown");
}

TEST(TokenLivesFigure, OfOneTokenHasALaneAHead) {
  const FakeRecording recording = two_runs();
  const Figure figure = build_figure(recording, {.name = "token-lives", .token = 20});
  const Panel& panel = figure.panels.front();
  EXPECT_THAT(panel.y.categories, testing::ElementsAre("layer 0, KV head 0", "layer 0, KV head 1",
                                                       "layer 1, KV head 0", "layer 1, KV head 1"));
  EXPECT_EQ(panel.heatmap->values.rows(), 4);
  EXPECT_THAT(panel.note, HasSubstr("of 4 heads still hold it"));
  EXPECT_THROW(build_figure(recording, {.name = "token-lives", .token = 40}), UsageError);
}

TEST(TokenLivesFigure, ByLossBeginsWithWhatWouldHaveReceivedMost) {
  const FakeRecording recording = two_runs();
  const Figure figure =
      build_figure(recording, {.name = "token-lives", .order = MatrixOrder::kLoss, .max_size = 5});
  const Panel& panel = figure.panels.front();
  ASSERT_TRUE(panel.order);
  EXPECT_TRUE(panel.order->rows_only);
  EXPECT_THAT(panel.order->token, SizeIs(5));
  EXPECT_EQ(panel.heatmap->values.rows(), 5);
  EXPECT_THAT(panel.note, HasSubstr("that would have received most"));
}

TEST(TokenLivesFigure, ByLossNeedsAFullCache) {
  FakeRecording recording(1, 2, 1, 8, 40, 8);
  recording.add_run("sink", 12);
  recording.fill(1);
  EXPECT_THROW(build_figure(recording, {.name = "token-lives", .order = MatrixOrder::kLoss}), UsageError);
  EXPECT_THROW(build_figure(recording, {.name = "token-lives", .order = MatrixOrder::kDendrogram}),
               UsageError);
}

}  // namespace
}  // namespace keyscope::figures
