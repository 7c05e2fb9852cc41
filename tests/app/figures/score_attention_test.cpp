#include "app/figures/score_attention.hpp"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

constexpr int kNone = 0, kKeydiff = 1;

FakeRecording two_runs() {
  FakeRecording recording(2, 4, 2, 4, 32, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 8);
  recording.fill(2);
  return recording;
}

// Three keys along (1, 0), (0, 1) and (-1, 1): their mean is (0, 2/3). The fake's attention is 1, 3/2 and
// 5/3, received from 3, 2 and 1 queries.
FakeRecording three_keys() {
  FakeRecording recording(1, 1, 1, 2, 3, 3);
  recording.add_run("none", 0);
  recording.keys_of(0, 0, 0) << 1, 0, 0, 1, -1, 1;
  return recording;
}

const PointSeries& series(const Figure& figure, const std::string& id) {
  for (const PointSeries& each : figure.panels.front().points)
    if (each.id == id) return each;
  throw InvalidInput("no series " + id);
}

TEST(ScoreAttentionFigure, APointIsAKeysScoreAndTheLogarithmOfItsAttention) {
  const Figure figure = score_attention_figure(three_keys(), {0, 0, 0});
  const PointSeries& keys = series(figure, "retained");
  EXPECT_THAT(keys.token, ElementsAre(0, 1, 2));
  EXPECT_THAT(keys.x,
              ElementsAre(FloatNear(0, 1e-6F), FloatNear(-1, 1e-6F), FloatNear(-std::sqrt(0.5F), 1e-6F)));
  EXPECT_THAT(keys.y,
              ElementsAre(FloatNear(std::log10(1.0F / 3), 1e-6F), FloatNear(std::log10(3.0F / 4), 1e-6F),
                          FloatNear(std::log10(5.0F / 3), 1e-6F)));
}

TEST(ScoreAttentionFigure, RanksCountFromOne) {
  const PointSeries keys = series(score_attention_figure(three_keys(), {0, 0, 0, true}), "retained");
  EXPECT_THAT(keys.x, ElementsAre(3, 1, 2));
  EXPECT_THAT(keys.y, ElementsAre(1, 2, 3));
}

TEST(ScoreAttentionFigure, TheTitleSaysWhatAnalyzeSays) {
  const FakeRecording recording = two_runs();
  const auto measures = measures::measure_head(recording, kNone, 1, 0);
  const Figure figure = score_attention_figure(recording, {kNone, 1, 0});
  const auto shown = [](double rho) { return fmt::format("{}{:.2f}", rho < 0 ? "−" : "", std::abs(rho)); };
  EXPECT_THAT(figure.title, HasSubstr("ρ = " + shown(*measures.spearman)));
  EXPECT_THAT(figure.title, HasSubstr("fixed " + shown(*measures.spearman_given_position)));
}

TEST(ScoreAttentionFigure, EvictedKeysAreRings) {
  const FakeRecording recording = two_runs();
  const Figure figure = score_attention_figure(recording, {kKeydiff, 0, 1});
  EXPECT_EQ(series(figure, "evicted").token.size(), 24U);
  EXPECT_EQ(series(figure, "retained").token, measures::measure_head(recording, kKeydiff, 0, 1).retained);
  EXPECT_EQ(series(figure, "evicted").marker, Marker::kRing);
}

TEST(ScoreAttentionFigure, SelectionsThatAreNotThereAreRefused) {
  FakeRecording recording = two_runs();
  EXPECT_THROW(score_attention_figure(recording, {2, 0, 0}), UsageError);
  EXPECT_THROW(score_attention_figure(recording, {kNone, 9, 0}), UsageError);
  EXPECT_THROW(score_attention_figure(recording, {kNone, 0, 2}), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(score_attention_figure(recording, {kNone, 0, 0}), FileError);
}

}  // namespace
}  // namespace keyscope::figures
