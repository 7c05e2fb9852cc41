#include "app/figures/ablation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One head, so that the median is that head's number.
FakeRecording anchors() {
  FakeRecording recording(1, 1, 1, 4, 40, 8);
  recording.add_run("none", 0);
  for (const char* anchor : {"mean", "median"}) {
    const int run = recording.add_run("keydiff", 10);
    auto& plan = recording.edit_info().runs[static_cast<std::size_t>(run)].plan;
    plan.parameters = std::string(R"({"anchor":")") + anchor + R"("})";
    plan.name = std::string("keydiff") + (run > 1 ? "-2" : "");
  }
  recording.fill(2);
  recording.edit_info().values = true;
  return recording;
}

TEST(Ablation, NumbersAreThoseOfAnalyze) {
  const FakeRecording recording = anchors();
  const Figure figure = ablation_figure(recording, {{0, 1, 2}, -1});
  ASSERT_EQ(figure.panels.size(), 2U) << "no logits were recorded";
  for (const int run : {1, 2}) {
    const auto measured = measures::measure_head(recording, run, 0, 0);
    const auto at = static_cast<std::size_t>(run - 1);
    EXPECT_FLOAT_EQ(figure.panels[0].points[0].y[at], static_cast<float>(*measured.attention_mass_kept));
    EXPECT_FLOAT_EQ(figure.panels[1].points[0].y[at], static_cast<float>(*measured.output_error));
  }
}

TEST(Ablation, RunsOfOnePolicyAreCalledByWhatDiffers) {
  FakeRecording recording = anchors();
  const Figure figure = ablation_figure(recording, {{0, 1, 2}, -1});
  EXPECT_THAT(figure.panels.front().x.categories, ElementsAre("anchor mean", "anchor median"));
  EXPECT_THAT(figure.caption, HasSubstr(", keydiff, N = 10, B = 8"));
  auto& median = recording.edit_info().runs[2].plan;
  median.parameters = R"({"anchor":"median","metric":"dot"})";
  recording.edit_info().runs[1].plan.parameters = R"({"anchor":"mean","metric":"dot"})";
  const int third = recording.add_run("keydiff", 10);
  recording.edit_info().runs[static_cast<std::size_t>(third)].plan.parameters =
      R"({"anchor":"mean","metric":"cosine"})";
  recording.fill(2);
  EXPECT_THAT(ablation_figure(recording, {{1, 2, third}, -1}).panels.front().x.categories,
              ElementsAre("anchor mean, metric dot", "anchor median", "metric cosine"));
}

TEST(Ablation, RunsOfSeveralPoliciesKeepTheirNames) {
  FakeRecording recording = anchors();
  const int sink = recording.add_run("sink", 10);
  recording.fill(2);
  EXPECT_THAT(ablation_figure(recording, {{1, sink}, -1}).panels.front().x.categories,
              ElementsAre("keydiff, anchor mean", "sink"));
}

TEST(Ablation, RefusesWhatIsNotThere) {
  EXPECT_THROW(ablation_figure(anchors(), {{0}, -1}), FileError) << "nothing evicts";
  EXPECT_THROW(ablation_figure(anchors(), {{1, 4}, -1}), UsageError);
  EXPECT_THROW(ablation_figure(anchors(), {{1}, 5}), UsageError);
  FakeRecording recording(1, 1, 1, 4, 40, 8);
  recording.add_run("keydiff", 10);
  EXPECT_THROW(ablation_figure(recording, {{0}, -1}), FileError) << "nothing to measure against";
}

}  // namespace
}  // namespace keyscope::figures
