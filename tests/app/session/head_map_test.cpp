#include "app/session/head_map.hpp"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/session/selection.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::session {

namespace {

using ::testing::ElementsAre;

using ::testing::HasSubstr;

std::size_t index_of(const char* id) {
  const std::size_t index = measure_index(id);
  EXPECT_STREQ(measure_choices()[index].id, id);
  return index;
}

// What the window colours and what `figure head-map` writes are the same numbers.
TEST(HeadMap, EqualsTheCommandLinesFigure) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording, {.run = "keydiff"});
  for (const int reference : {-1, 2, 0})
    for (const MeasureChoice& measure : measure_choices()) {
      if (reference >= 0 && measure.of_hypothesis()) continue;
      session.choose_measure(measure_index(measure.id));
      session.choose_reference(reference);
      session.choose_view("head-map");
      ASSERT_TRUE(settle(session));
      const HeadMap& map = session.state().map;
      const MadeFigure& shown = shown_in(session);
      ASSERT_TRUE(shown.figure) << shown.error;
      const auto& heatmap = *shown.figure->panels.front().heatmap;
      ASSERT_EQ(map.cells.size(), 16U);
      EXPECT_EQ(map.n_measured, 16);
      EXPECT_EQ(heatmap.long_name, map.scale.name);
      EXPECT_EQ(heatmap.low, static_cast<float>(map.scale.low));
      for (int layer = 0; layer < 4; ++layer)
        for (int head = 0; head < 4; ++head) {
          const HeadMap::Cell& cell = *map.cell(*recording->info(), layer, head);
          EXPECT_EQ(cell.value.has_value(), cell.missing.empty());
          if (cell.value)
            EXPECT_EQ(heatmap.values(layer, head), static_cast<float>(*cell.value)) << measure.id;
          else
            EXPECT_TRUE(std::isnan(heatmap.values(layer, head))) << measure.id;
        }
      const auto again = figures::build_figure(*recording, figure_request(*recording->info(), shown.key));
      EXPECT_EQ(again.title, shown.figure->title);
    }
}

TEST(HeadMap, LayersWithoutKeysHaveNoCells) {
  recording::RecordingInfo info = *small_recording()->info();
  info.layers = {0, 3};
  info.keyless_layers = {1, 2};
  const HeadMap map = make_head_map(info, {}, {}, 0);
  EXPECT_EQ(map.cells.size(), 8U);
  EXPECT_NE(map.cell(info, 3, 3), nullptr);
  EXPECT_EQ(map.cell(info, 1, 0), nullptr);
  EXPECT_THAT(selection_refusal(info, {}, {.layer = 2}), HasSubstr("it has no keys; layers with keys: 0, 3"));
}

TEST(HeadMap, ADifferenceIsNamedAndSwitchedOff) {
  Session session({});
  session.show(small_recording(), {.run = "keydiff", .measure = "log_volume_nats", .reference = "sink"});
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().map.title, "keydiff − sink");
  EXPECT_EQ(session.state().map.scale.low, -session.state().map.scale.high);
  session.select_run(2);
  EXPECT_EQ(session.state().map.title, "") << "no run is compared with itself";
  session.select_run(1);
  EXPECT_EQ(session.state().map.title, "keydiff − sink") << "and the choice was kept";
  session.choose_reference(-1);
  EXPECT_EQ(session.state().map.title, "");
  session.choose_reference(7);  // there is none
  EXPECT_EQ(session.state().reference, -1);
}

TEST(HeadMap, AnOverlapFindsTheOtherEvictingRun) {
  Session session({});
  session.show(small_recording(), {.run = "sink"});
  session.choose_measure(index_of("retained_overlap"));
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().map.title, "sink and keydiff");
  EXPECT_EQ(session.state().reference, -1) << "not chosen for other measures";
  ASSERT_TRUE(session.state().map.cells.front().value);
  session.choose_measure(index_of("log_volume_nats"));
  EXPECT_EQ(session.state().map.title, "");
}

// Of a run that evicts ρ is biased: the map has the full cache's, whichever run is looked at.
TEST(HeadMap, WhatSpeaksOfTheModelIsOfTheFullCache) {
  Session session({});
  const auto recording = small_recording();
  session.show(recording, {.run = "keydiff"});
  session.choose_measure(index_of("spearman"));
  session.choose_reference(2);
  ASSERT_TRUE(settle(session));
  const HeadMap& map = session.state().map;
  EXPECT_EQ(map.title, "of none") << "and not a difference of two biased numbers";
  EXPECT_FALSE(map.biased);
  const auto full = measures::measure_head(*recording, 0, 3, 2, measures::Parts::all());
  EXPECT_EQ(map.cell(*recording->info(), 3, 2)->value, full.spearman);
}

TEST(HeadMap, WithoutAFullCacheItSaysThatItIsBiased) {
  const auto recording = small_recording();
  recording::RecordingInfo info = *recording->info();
  info.runs.erase(info.runs.begin());
  const HeadMap map = make_head_map(info, {}, {index_of("spearman"), -1}, 0);
  EXPECT_TRUE(map.biased);
  EXPECT_THAT(map.title, HasSubstr("biased"));
  EXPECT_FALSE(make_head_map(info, {}, {index_of("log_volume_nats"), -1}, 0).biased);
}

TEST(HeadMap, SaysWhyAHeadHasNoValue) {
  const auto recording = small_recording();
  const auto& info = *recording->info();
  const std::map<HeadKey, MeasuredHead> nothing;
  const HeadMap early = make_head_map(info, nothing, {index_of("log_volume_nats"), 2}, 1);
  EXPECT_EQ(early.cells.front().missing, "not measured yet");
  EXPECT_EQ(early.n_measured, 0);
  const std::map<HeadKey, MeasuredHead> one{{{1, 0, 0}, {}}};
  EXPECT_EQ(make_head_map(info, one, {index_of("log_volume_nats"), 2}, 1).cells.front().missing,
            "not measured yet in sink");
  EXPECT_THAT(make_head_map(info, one, {index_of("log_volume_nats"), -1}, 1).cells.front().missing,
              HasSubstr("does not exist"));
  EXPECT_THAT(make_head_map(info, one, {index_of("output_error"), -1}, 1).cells.front().missing,
              HasSubstr("values"));
}

TEST(HeadMap, SaysOfHowManyTokensItIsWhereThereAreMoreByNow) {
  const auto recording = small_recording();
  const auto& info = *recording->info();
  const auto of = [&](std::int64_t first, std::int64_t second) {
    const std::map<HeadKey, MeasuredHead> measured{{{1, 0, 0}, {{}, first}}, {{1, 0, 1}, {{}, second}}};
    return make_head_map(info, measured, {index_of("log_volume_nats"), -1}, 1).of_first;
  };
  EXPECT_EQ(of(320, 320), 0);
  EXPECT_EQ(of(320, 128), 128);
  EXPECT_EQ(of(64, 128), 64);
}

TEST(HeadMap, AnUnknownRequestIsSaid) {
  Session session({});
  session.show(small_recording(), {.measure = "volume"});
  EXPECT_THAT(session.state().notice.text, HasSubstr("there is no measure 'volume'"));
  Session other({});
  other.show(small_recording(), {.token = 320});
  EXPECT_THAT(other.state().notice.text, HasSubstr("there is no token 320"));
  EXPECT_EQ(other.state().locked, std::nullopt);
}

}  // namespace

}  // namespace keyscope::session
