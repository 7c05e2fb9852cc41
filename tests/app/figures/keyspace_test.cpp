#include "app/figures/keyspace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "app/figures/figure_builders.hpp"
#include "base/errors.hpp"
#include "tests/app/figures/made_figures.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;

// Six tokens in blocks of two along the first coordinate; token 1 goes after block 1, tokens 0 and 2 after
// block 2.
FakeRecording three_blocks() {
  FakeRecording recording(1, 2, 1, 3, 6, 2);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 3);
  for (const int run : {0, 1}) {
    recording.keys_of(run, 0, 0).col(0) << -5, -3, -1, 1, 3, 5;
    recording.queries_of(run, 0, 0).col(1).setConstant(2);
    recording.queries_of(run, 0, 1).col(1).setConstant(-1);
  }
  recording.evicted_at(1, 0, 0) = {2, 1, 2, -1, -1, -1};
  return recording;
}

Panel panel_after(std::int64_t block) {
  return keyspace_figure(three_blocks(), {.runs = {"keydiff"}, .block = block}).panels.at(0);
}

TEST(Keyspace, EveryMomentIsRebuiltFromEvictedAt) {
  EXPECT_THAT(series(panel_after(0), "retained").token, ElementsAre(0, 1));
  EXPECT_THAT(series(panel_after(0), "evicted").token, IsEmpty());
  EXPECT_THAT(series(panel_after(1), "retained").token, ElementsAre(0, 2, 3));
  EXPECT_THAT(series(panel_after(1), "evicted").token, ElementsAre(1));
  EXPECT_THAT(series(panel_after(2), "retained").token, ElementsAre(3, 4, 5));
  EXPECT_THAT(series(panel_after(2), "evicted").token, ElementsAre(0, 1, 2));
  EXPECT_EQ(panel_after(2).note, "3 of 6 keys retained");
  EXPECT_EQ(panel_after(0).note, "all 2 keys retained");
}

TEST(Keyspace, LooksAreTheAgreedOnes) {
  const Panel panel = panel_after(2);
  EXPECT_EQ(series(panel, "retained").marker, Marker::kDisc);
  EXPECT_EQ(series(panel, "retained").colour.b, 0xB2);
  EXPECT_EQ(series(panel, "evicted").marker, Marker::kRing);
  EXPECT_EQ(series(panel, "evicted").colour.r, 0xE6);
  EXPECT_TRUE(panel.equal_aspect);
}

// The basis: keys (±5, ±3, ±1, 0, 0), queries (0, 2, 0) and (0, -1, 0) six times each. Joint mean (0, 1/3,
// 0); the first axis is x (variance 70 against 27 + ... along y), so the anchor after block 0 is the mean of
// -5 and -3.
TEST(Keyspace, AnchorAndMeanQueryAreMeansOfWhatWasSeen) {
  const Panel panel = panel_after(0);
  EXPECT_THAT(series(panel, "anchor").x, ElementsAre(FloatNear(-4, 1e-5F)));
  EXPECT_THAT(series(panel, "anchor").y, ElementsAre(FloatNear(-1.0F / 3, 1e-5F)));
  EXPECT_THAT(series(panel, "mean_query").x, ElementsAre(FloatNear(0, 1e-5F)));
  EXPECT_THAT(series(panel, "mean_query").y, ElementsAre(FloatNear(0.5F - 1.0F / 3, 1e-5F)));
  EXPECT_TRUE(series(panel, "anchor").token.empty());
}

// After block 1 four keys are seen, along x at -5, -3, -1 and 1: their mean is opposed by the last alone.
TEST(Keyspace, TopKeysAreCircledWhetherRetainedOrNot) {
  const PointSeries top = series(panel_after(1), "top_keys");
  EXPECT_EQ(top.token.size(), 4U) << "ten at most, of all keys seen";
  EXPECT_EQ(top.token.front(), 3);
  EXPECT_THAT(top.token, testing::Contains(1)) << "evicted";
  EXPECT_EQ(top.marker, Marker::kCircle);
  EXPECT_EQ(top.x.front(), series(panel_after(1), "retained").x.back()) << "about its point";
}

TEST(Keyspace, PointsStandStillWhenBlockOrPolicyChanges) {
  const Figure figure = keyspace_figure(three_blocks(), {.runs = {"none", "keydiff"}});
  ASSERT_EQ(figure.panels.size(), 2U);
  EXPECT_TRUE(figure.shared_ranges);
  EXPECT_EQ(series(figure.panels[0], "retained").x[3], series(figure.panels[1], "retained").x[0]);
  EXPECT_EQ(series(figure.panels[1], "retained").x[0], series(panel_after(1), "retained").x[2]);
  EXPECT_EQ(figure.panels[0].x.label, figure.panels[1].x.label);
}

TEST(Keyspace, QueriesOfTheWholeGroupCanBeShown) {
  const Panel panel =
      keyspace_figure(three_blocks(), {.runs = {"keydiff"}, .block = 1, .queries = true}).panels.at(0);
  EXPECT_THAT(series(panel, "queries").token, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(panel.points.front().id, "queries") << "drawn below the keys";
}

TEST(Keyspace, ThreeComponentsGiveAThirdAxis) {
  const Panel panel =
      keyspace_figure(three_blocks(), {.runs = {"keydiff"}, .projection = Projection::kPca3d}).panels.at(0);
  EXPECT_TRUE(panel.is_3d());
  EXPECT_EQ(series(panel, "retained").z.size(), 3U);
  EXPECT_EQ(panel.explained_variance.size(), 3U);
}

// After block 0 the keys at -5 and -3 are seen, so their mean points along -x: both have cosine 1. After
// block 2 all keys are, whose mean is zero and has no direction.
TEST(Keyspace, AgainstTheAnchorAPointIsItsCosineAndNorm) {
  const Figure figure = keyspace_figure(
      three_blocks(), {.runs = {"keydiff"}, .block = 1, .projection = Projection::kAnchor, .queries = true});
  const Panel& panel = figure.panels.at(0);
  EXPECT_FALSE(panel.equal_aspect);
  EXPECT_EQ(panel.x.label, "cosine to the anchor");
  EXPECT_THAT(figure.caption, HasSubstr("moves from block to block"));
  EXPECT_THAT(series(panel, "retained").token, ElementsAre(0, 2, 3));
  EXPECT_THAT(series(panel, "retained").x,
              ElementsAre(FloatNear(1, 1e-6F), FloatNear(1, 1e-6F), FloatNear(-1, 1e-6F)));
  EXPECT_THAT(series(panel, "retained").y,
              ElementsAre(FloatNear(5, 1e-6F), FloatNear(1, 1e-6F), FloatNear(1, 1e-6F)));
  EXPECT_THAT(series(panel, "anchor").x, ElementsAre(FloatNear(1, 1e-6F)));
  EXPECT_THAT(series(panel, "anchor").y, ElementsAre(FloatNear(2, 1e-6F))) << "the mean of -5, -3, -1 and 1";
  EXPECT_THAT(series(panel, "queries").x.front(), FloatNear(0, 1e-6F)) << "at right angles";
  EXPECT_THAT(series(panel, "queries").y.front(), FloatNear(2, 1e-6F));
}

TEST(Keyspace, ColoursAreValuesOnTheScaleThatAllPanelsShare) {
  const Figure figure =
      keyspace_figure(three_blocks(), {.runs = {"none", "keydiff"}, .colour = KeyColour::kPosition});
  for (const Panel& panel : figure.panels) {
    ASSERT_TRUE(panel.scale);
    EXPECT_EQ(panel.scale->low, 0);
    EXPECT_EQ(panel.scale->high, 5);
  }
  const PointSeries retained = series(figure.panels[1], "retained");
  EXPECT_THAT(retained.value, ElementsAre(3, 4, 5)) << "in the order of the points";
  EXPECT_EQ(figure.view.colour, "position");
}

TEST(Keyspace, QueriesThatWereNotRecordedAreNotShown) {
  FakeRecording recording = three_blocks();
  recording.edit_info().queries = false;
  EXPECT_NO_THROW(keyspace_figure(recording, {.runs = {"keydiff"}}));
  EXPECT_THROW(keyspace_figure(recording, {.runs = {"keydiff"}, .queries = true}), FileError);
}

TEST(Keyspace, SeveralEvictingRunsAreShownTogetherAsWell) {
  FakeRecording recording = three_blocks();
  const int sink = recording.add_run("sink", 3);
  recording.evicted_at(sink, 0, 0) = {-1, 1, 2, 2, -1, -1};
  const Figure figure = keyspace_figure(recording, {.runs = {"none", "keydiff", "sink"}});
  ASSERT_EQ(figure.panels.size(), 4U);
  EXPECT_THAT(series(figure.panels[3], "keydiff").token, ElementsAre(3, 4, 5));
  EXPECT_THAT(series(figure.panels[3], "sink").token, ElementsAre(0, 4, 5));
  EXPECT_THAT(figure.caption, HasSubstr("N = 3, B = 2"));
}

// All policies and two that are not known, with everything else that a key space can show.
TEST(Keyspace, APolicysLookIsNoOtherSeries) {
  FakeRecording recording = three_blocks();
  FigureRequest request{.runs = {"keydiff"}, .queries = true};
  for (const char* name :
       {"snapkv", "sink", "h2o", "tova", "random", "l2norm", "logdet", "leverage", "cur", "new", "newer"}) {
    request.runs.emplace_back(name);
    recording.add_run(name, 3);
  }
  const Figure figure = keyspace_figure(recording, request);
  const std::vector<PointSeries>& policies = figure.panels.back().points;
  ASSERT_EQ(policies.size(), 12U);
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (const PointSeries& other : figure.panels.front().points) {
      EXPECT_NE(policies[i].colour, other.colour) << policies[i].id << " and " << other.id;
      EXPECT_NE(policies[i].marker, other.marker) << policies[i].id << " and " << other.id;
    }
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(policies[i].colour == policies[j].colour && policies[i].marker == policies[j].marker);
    }
  }
}

TEST(Keyspace, BeforeTheFirstBlockThereIsNothingToShow) {
  FakeRecording recording = three_blocks();
  auto& run = recording.edit_info().runs[1];
  run.blocks_done = run.n_tokens = 0;
  run.block_start.clear();
  const Panel panel = keyspace_figure(recording, {.runs = {"keydiff"}}).panels.at(0);
  EXPECT_THAT(panel.note, HasSubstr("no token"));
  for (const PointSeries& each : panel.points) EXPECT_THAT(each.x, IsEmpty());
}

TEST(Keyspace, SelectionsThatAreNotThereSayWhatIs) {
  const auto message = [](const FakeRecording& recording, const FigureRequest& request) -> std::string {
    try {
      keyspace_figure(recording, request);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_THAT(message(FakeRecording(1, 2, 1, 3, 6, 2), {}), HasSubstr("no run"));
  EXPECT_THAT(message(three_blocks(), {.runs = {"keydiff"}, .layer = 7}), HasSubstr("recorded layers: 0"));
  EXPECT_THAT(message(three_blocks(), {.runs = {"keydiff"}, .kv_head = 3}), HasSubstr("KV head 3"));
  EXPECT_THAT(message(three_blocks(), {.runs = {"keydiff"}, .block = 3}), HasSubstr("blocks 0 to 2"));
  EXPECT_THAT(message(three_blocks(), {.runs = {"sink"}}), HasSubstr("its runs are: none, keydiff"));
}

TEST(TopKeys, AreTheLeastAlikeTheMeanKey) {
  RowMatrixF keys(5, 2);
  keys << 3, 0, 2, 1, 0, -1, 2, -1, 4, 0;  // their mean lies along x
  EXPECT_THAT(top_keydiff_keys(keys, 3), ElementsAre(2, 1, 3)) << "of equal ones the earlier";
  EXPECT_THAT(top_keydiff_keys(keys, 9), ElementsAre(2, 1, 3, 0, 4));
}

TEST(TopKeys, WithoutADirectionThereAreNone) {
  EXPECT_THAT(top_keydiff_keys(RowMatrixF(0, 2), 3), IsEmpty());
  EXPECT_THAT(top_keydiff_keys(RowMatrixF::Zero(4, 2), 3), IsEmpty());
}

TEST(TopKeys, TheFirstIsTheTopKeyOfTheHeadsGeometry) {
  FakeRecording recording(1, 1, 1, 4, 64, 16);
  recording.add_run("none", 0);
  recording.fill(11);
  const RowMatrixF keys = recording.keys(0, 0, 0, 0, 64), queries = recording.queries(0, 0, 0, 0, 64);
  EXPECT_EQ(top_keydiff_keys(keys, 10).front(), analysis::measure_head_geometry(keys, queries).top_key);
}

}  // namespace

}  // namespace keyscope::figures
