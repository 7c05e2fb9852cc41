#include "app/figures/head_comparison.hpp"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/figures/registry.hpp"
#include "app/measures/recording_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;

FakeRecording three_runs() {
  FakeRecording recording(2, 4, 2, 4, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.add_run("sink", 10);
  recording.fill(2);
  recording.edit_info().values = true;
  return recording;
}

FigureRequest asked(const char* measure, const char* reference) {
  FigureRequest request;
  request.name = "head-map";
  request.runs = {"keydiff"};
  request.measure = measure;
  if (reference != nullptr) request.reference = reference;
  return request;
}

// The slow way: out of the JSON that `analyze` writes.
RowMatrixF from_analyze(const recording::Recording& recording, const std::string& id, int run,
                        int reference) {
  std::vector<measures::RunMeasures> runs;
  for (const int r : {run, reference})
    runs.push_back({recording.info()->runs[static_cast<std::size_t>(r)].plan.name,
                    {},
                    {},
                    measures::measure_heads(recording, r)});
  const auto json = measures::measures_json(*recording.info(), runs);
  RowMatrixF grid(2, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto &here = json["runs"][0]["heads"][i], &there = json["runs"][1]["heads"][i];
    grid(here["layer"].get<int>(), here["kv_head"].get<int>()) =
        static_cast<float>(here[id].get<double>() - there[id].get<double>());
  }
  return grid;
}

TEST(HeadComparison, IsTheDifferenceOfWhatAnalyzeReports) {
  const FakeRecording recording = three_runs();
  for (const char* id : {"log_volume_nats", "mean_pairwise_cosine", "attention_mass_kept",
                         "participation_ratio", "effective_rank", "cosine_objective", "output_error"}) {
    const Figure figure = build_figure(recording, asked(id, "sink"));
    const Heatmap& map = *figure.panels.at(0).heatmap;
    EXPECT_EQ(map.values, from_analyze(recording, id, 1, 2)) << id;
    EXPECT_EQ(map.colour_map, ColourMap::kDiverging) << id;
    EXPECT_EQ(map.low, -map.high) << "centred at 0";
    EXPECT_FLOAT_EQ(map.high, map.values.cwiseAbs().maxCoeff());
    EXPECT_THAT(figure.title, HasSubstr("keydiff − sink"));
  }
}

TEST(HeadComparison, WithoutAReferenceIsTheMeasureItself) {
  const FakeRecording recording = three_runs();
  const auto heads = measures::measure_heads(recording, 1);
  const Figure figure = build_figure(recording, asked("log_volume_nats", nullptr));
  const Heatmap& map = *figure.panels.at(0).heatmap;
  EXPECT_EQ(map.values(1, 0), static_cast<float>(*heads[2].log_volume_nats));
  EXPECT_EQ(map.units, "nats");
  EXPECT_EQ(map.low, map.values.minCoeff());
  EXPECT_EQ(map.high, map.values.maxCoeff());
}

TEST(HeadComparison, OverlapCountsWhatBothRetained) {
  FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("keydiff", 2);
  recording.add_run("sink", 2);
  recording.fill(1);
  recording.evicted_at(0, 0, 0) = {1, -1, 1, -1};  // {1, 3}
  recording.evicted_at(1, 0, 0) = {1, -1, -1, 1};  // {1, 2}: one of three
  const Figure figure = build_figure(recording, asked("retained_overlap", "sink"));
  EXPECT_FLOAT_EQ(figure.panels.at(0).heatmap->values(0, 0), 1.0F / 3);
  EXPECT_THAT(figure.title, HasSubstr("keydiff and sink"));
}

TEST(HeadComparison, AMissingValueIsBlankAndExplained) {
  FakeRecording recording = three_runs();
  recording.edit_info().values = false;
  const Figure figure = build_figure(recording, asked("output_error", nullptr));
  EXPECT_TRUE(figure.panels.at(0).heatmap->values.array().isNaN().all());
  EXPECT_EQ(figure.panels[0].note, "4 of 4 heads have no value: it needs recorded keys, queries and values");
}

TEST(HeadComparison, RefusesWhatIsNotThere) {
  const FakeRecording recording = three_runs();
  EXPECT_THROW(build_figure(recording, asked("volume", nullptr)), UsageError);
  EXPECT_THROW(build_figure(recording, asked("spearman", "tova")), UsageError);
  EXPECT_THROW(build_figure(recording, asked("retained_overlap", nullptr)), UsageError);
}

TEST(HeadMeasures, HaveTheNamesOfAnalyze) {
  measures::RunMeasures run{"keydiff", {}, {}, measures::measure_heads(three_runs(), 1)};
  const auto head = measures::measures_json(*three_runs().info(), {run})["runs"][0]["heads"][0];
  std::set<std::string> ids;
  for (const HeadMeasure& measure : head_measures()) {
    EXPECT_TRUE(ids.insert(measure.id).second) << measure.id;
    EXPECT_TRUE(measure.of_two_runs() || head.contains(measure.id)) << measure.id;
    EXPECT_EQ(&find_head_measure(measure.id), &measure);
  }
}

}  // namespace
}  // namespace keyscope::figures
