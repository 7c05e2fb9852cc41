#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;

// Cell by cell, over every token and block of it.
LifeGrid slow_grid(const std::vector<Life>& lives, std::int64_t n_blocks, std::int64_t tokens_per_row,
                   std::int64_t blocks_per_column) {
  const auto n = static_cast<std::int64_t>(lives.size());
  const auto rows = (n + tokens_per_row - 1) / tokens_per_row;
  const auto columns = (n_blocks + blocks_per_column - 1) / blocks_per_column;
  LifeGrid grid{tokens_per_row, blocks_per_column, RowMatrixF(rows, columns), RowMatrixF(rows, columns)};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      double seen = 0, cached = 0, valued = 0, sum = 0;
      for (std::int64_t t = r * tokens_per_row; t < std::min(n, (r + 1) * tokens_per_row); ++t)
        for (std::int64_t b = c * blocks_per_column; b < std::min(n_blocks, (c + 1) * blocks_per_column);
             ++b) {
          const Life& life = lives[t];
          if (b < life.first) continue;
          ++seen;
          if (b > life.last) continue;
          ++cached;
          if (std::isnan(life.value)) continue;
          ++valued;
          sum += life.value;
        }
      grid.share(r, c) = static_cast<float>(seen > 0 ? cached / seen : NAN);
      grid.value(r, c) = static_cast<float>(valued > 0 ? sum / valued : NAN);
    }
  return grid;
}

void expect_same(const RowMatrixF& fast, const RowMatrixF& slow) {
  ASSERT_EQ(fast.rows(), slow.rows());
  ASSERT_EQ(fast.cols(), slow.cols());
  for (Eigen::Index i = 0; i < fast.size(); ++i) {
    if (std::isnan(slow.data()[i]))
      EXPECT_TRUE(std::isnan(fast.data()[i])) << i;
    else
      EXPECT_NEAR(fast.data()[i], slow.data()[i], 1e-6) << i;
  }
}

TEST(LifeGrid, EqualsTheSlowCount) {
  std::mt19937 random(7);
  for (const auto& [n_tokens, n_blocks, most] :
       {std::tuple{1, 1, 4}, {40, 10, 64}, {40, 10, 7}, {101, 53, 10}, {64, 64, 1}}) {
    std::vector<Life> lives;
    for (int i = 0; i < n_tokens; ++i) {
      const auto first = static_cast<std::int64_t>(i) * n_blocks / n_tokens;
      const auto last = std::uniform_int_distribution<std::int64_t>(first, n_blocks - 1)(random);
      lives.push_back({first, last, i % 3 == 0 ? NAN : 0.1 * i});
    }
    const LifeGrid fast = grid_lives(lives, n_blocks, most);
    EXPECT_LE(fast.share.rows(), most);
    EXPECT_LE(fast.share.cols(), most);
    const LifeGrid slow = slow_grid(lives, n_blocks, fast.tokens_per_row, fast.blocks_per_column);
    expect_same(fast.share, slow.share);
    expect_same(fast.value, slow.value);
  }
}

TEST(Lifespans, GoFromTheBlockOfArrivalToTheEviction) {
  FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("keydiff", 2);
  recording.evicted_at(0, 0, 0) = {0, -1, 1, -1};
  const std::vector<double> values(4, 1);
  const auto lives = token_lives(recording.info()->runs[0], recording.evicted_at(0, 0, 0), values);
  ASSERT_EQ(lives.size(), 4U);
  EXPECT_EQ(lives[0].first, 0);
  EXPECT_EQ(lives[0].last, 0) << "evicted by the block that it came with";
  EXPECT_EQ(lives[1].last, 1) << "there to the end";
  EXPECT_EQ(lives[2].first, 1);
  EXPECT_EQ(lives[2].last, 1);
}

FakeRecording none_and_sink() {
  FakeRecording recording(2, 4, 2, 4, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("sink", 10);
  recording.fill(2);
  return recording;
}

TEST(Lifespans, ShowWhoIsThereAndWhatTheyReceive) {
  FigureRequest request;
  request.name = "lifespans";
  request.layer = 1;
  const Figure figure = build_figure(none_and_sink(), request);
  EXPECT_EQ(figure.view.runs, std::vector<std::string>{"sink"}) << "a run that evicts";
  ASSERT_EQ(figure.panels.size(), 2U);
  const RowMatrixF& share = figure.panels[0].heatmap->values;
  ASSERT_EQ(share.rows(), 40);
  ASSERT_EQ(share.cols(), 5);
  EXPECT_EQ(share(0, 4), 1) << "the first token is kept";
  EXPECT_TRUE(std::isnan(share(39, 0))) << "not seen yet";
  for (Eigen::Index block = 1; block < 5; ++block) {
    double present = 0;
    for (Eigen::Index token = 0; token < 40; ++token)
      if (!std::isnan(share(token, block))) present += share(token, block);
    EXPECT_EQ(present, block == 1 ? 16 : 18) << "at most N rows of before, and the block's own";
  }
  const auto trace = none_and_sink().trace(1, 1, 0);
  EXPECT_FLOAT_EQ(figure.panels[1].heatmap->values(0, 2),
                  static_cast<float>(trace.attention_received[0] / trace.attention_queries[0]));
  EXPECT_EQ(figure.panels[0].note, "");
  EXPECT_FALSE(figure.shared_ranges) << "which are of points";
}

TEST(Lifespans, SayWhatACellStandsFor) {
  const FakeRecording recording = none_and_sink();
  const Figure figure = lifespans_figure(recording, {.runs = {"sink"}, .max_size = 4});
  EXPECT_EQ(figure.panels[0].note, "a cell is the mean over 10 tokens and 2 blocks");
  EXPECT_EQ(figure.panels[0].heatmap->y_end, 40);
  EXPECT_EQ(figure.panels[0].heatmap->x_end, 5) << "the last column stands for one block";
}

TEST(Lifespans, OfAReplayedRunTakeTheFullCachesAttention) {
  FakeRecording recording = none_and_sink();
  recording.edit_info().runs[1].plan.replayed = true;
  EXPECT_THAT(lifespans_figure(recording, {.runs = {"sink"}}).caption,
              HasSubstr("Attention is that of the run none"));
  recording.edit_info().runs[0].plan.policy = "sink";
  const Figure alone = lifespans_figure(recording, {.runs = {"sink"}});
  EXPECT_TRUE(alone.panels[1].heatmap->values.array().isNaN().all());
}

TEST(Lifespans, RefuseWhatIsNotThere) {
  EXPECT_THROW(lifespans_figure(none_and_sink(), {.runs = {"tova"}}), UsageError);
  EXPECT_THROW(lifespans_figure(none_and_sink(), {.runs = {"sink"}, .layer = 2}), UsageError);
  EXPECT_THROW(lifespans_figure(none_and_sink(), {.runs = {"sink"}, .kv_head = 2}), UsageError);
}

}  // namespace
}  // namespace keyscope::figures
