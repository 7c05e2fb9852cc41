// The two matrix figures of Fig. 2, and the reduction they share.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/reduction.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;

TEST(ReducedMatrix, EveryReductionOfATwoByTwoBlock) {
  RowMatrixF matrix(3, 3);
  matrix << 1, 2, 3, 4, NAN, 6, NAN, NAN, -9;
  const auto reduce = [&](Reduction how) {
    ReducedMatrix reduced(3, 3, 2, how);
    reduced.add_rows(0, matrix.topRows(1));
    reduced.add_rows(1, matrix.bottomRows(2));
    EXPECT_EQ(reduced.rows_per_cell(), 2);
    EXPECT_EQ(reduced.cols_per_cell(), 2);
    return reduced.finish();
  };
  EXPECT_FLOAT_EQ(reduce(Reduction::kMean)(0, 0), 7.0F / 3) << "NaN is left out";
  EXPECT_FLOAT_EQ(reduce(Reduction::kMax)(0, 0), 4);
  EXPECT_FLOAT_EQ(reduce(Reduction::kMin)(0, 1), 3);
  EXPECT_TRUE(std::isnan(reduce(Reduction::kMax)(1, 0))) << "a block of NaN alone";
  EXPECT_FLOAT_EQ(reduce(Reduction::kMax)(1, 1), -9);
}

TEST(ReducedMatrix, RowsAndColumnsMayBeReducedByThemselves) {
  RowMatrixF matrix(3, 2);
  matrix << 1, 2, 3, NAN, 5, 6;
  ReducedMatrix reduced(3, 2, 2, 1, Reduction::kMean);
  reduced.add_rows(0, matrix);
  RowMatrixF expected(2, 2);
  expected << 2, 2, 5, 6;
  EXPECT_EQ(reduced.finish(), expected);
  EXPECT_THROW(ReducedMatrix(4, 4, 1, 0, Reduction::kMean), InvalidInput);
}

TEST(ReducedMatrix, NamesAreTheCommandLines) {
  EXPECT_EQ(parse_reduction("max"), Reduction::kMax);
  EXPECT_EQ(reduction_name(Reduction::kMean), "mean");
  EXPECT_THROW(parse_reduction("median"), UsageError);
  EXPECT_THROW(ReducedMatrix(4, 4, 0, Reduction::kMean), InvalidInput);
}

TEST(CosineMatrix, ThreeKeysByHand) {
  FakeRecording recording(1, 1, 1, 2, 3, 2);
  recording.add_run("none", 0);
  recording.keys_of(0, 0, 0) << 2, 0, 0, 3, -1, 1;
  const Figure figure = cosine_matrix_figure(recording, {});
  const Heatmap& heatmap = *figure.panels.at(0).heatmap;
  const float half = std::sqrt(0.5F);
  RowMatrixF expected(3, 3);
  expected << 1, 0, -half, 0, 1, half, -half, half, 1;
  EXPECT_LT((heatmap.values - expected).cwiseAbs().maxCoeff(), 1e-6);
  EXPECT_EQ(heatmap.low, -1);
  EXPECT_EQ(heatmap.high, 1);
  EXPECT_EQ(heatmap.colour_map, ColourMap::kDiverging);
  EXPECT_EQ(figure.view.block, 1) << "the end of the prompt";
}

TEST(CosineMatrix, IsThatOfTheAnalysis) {
  FakeRecording recording(1, 1, 1, 8, 300, 64);
  recording.add_run("none", 0);
  recording.fill(2);
  recording.keys_of(0, 0, 0).row(17).setZero();
  const Figure figure = cosine_matrix_figure(recording, {});
  const RowMatrixD expected = analysis::cosine_matrix(recording.keys_of(0, 0, 0));
  EXPECT_LT((figure.panels[0].heatmap->values.cast<double>() - expected).cwiseAbs().maxCoeff(), 1e-6);
}

TEST(CosineMatrix, LargeOnesSayHowManyAreShown) {
  FakeRecording recording(1, 1, 1, 4, 100, 10);
  recording.add_run("none", 0);
  recording.fill(1);
  const Panel panel = cosine_matrix_figure(recording, {.max_size = 30}).panels.at(0);
  EXPECT_EQ(panel.heatmap->values.rows(), 25);
  EXPECT_EQ(panel.heatmap->x_step, 4);
  EXPECT_EQ(panel.heatmap->x_last(), 100);
  EXPECT_THAT(panel.note, HasSubstr("25 of 100"));
  EXPECT_THAT(panel.note, HasSubstr("mean"));
}

TEST(CosineMatrix, OfTheRetainedKeysOnly) {
  FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("keydiff", 2);
  recording.keys_of(0, 0, 0) << 1, 0, 5, 5, 0, 1, 7, 7;
  recording.evicted_at(0, 0, 0) = {-1, 1, -1, 1};
  const RowMatrixF values =
      cosine_matrix_figure(recording, {.retained_only = true}).panels.at(0).heatmap->values;
  EXPECT_TRUE(values.isApprox(RowMatrixF::Identity(2, 2)));
}

TEST(Attention, RecordedWeightsArePreferredAndBlankedWhereNotVisible) {
  FakeRecording recording = one_eviction();
  recording.edit_info().attention = true;
  recording.attention_of(0, 0, 1) = RowMatrixF::Constant(4, 4, 0.5F);
  const Figure figure = attention_figure(recording, {.query_head = 1});
  const RowMatrixF& values = figure.panels.at(0).heatmap->values;
  EXPECT_EQ(values(3, 0), 0.5F);
  EXPECT_TRUE(std::isnan(values(3, 1))) << "evicted";
  EXPECT_TRUE(std::isnan(values(0, 3))) << "later";
  EXPECT_THAT(figure.caption, HasSubstr("as recorded"));
}

TEST(Attention, IsRecomputedWhereItWasNotRecorded) {
  FakeRecording recording = one_eviction();
  const Figure figure = attention_figure(recording, {.query_head = 1});
  EXPECT_FLOAT_EQ(figure.panels.at(0).heatmap->values(3, 0), 0.6F);
  EXPECT_THAT(figure.caption, HasSubstr("recomputed from queries and keys"));
  recording.edit_info().queries = false;
  EXPECT_THROW(attention_figure(recording, {.query_head = 1}), FileError);
}

TEST(Attention, TheScaleHoldsEveryWeightOnALogarithmicAxis) {
  FakeRecording recording(1, 1, 1, 8, 64, 16);
  recording.add_run("none", 0);
  recording.fill(4);
  const Heatmap heatmap = *attention_figure(recording, {}).panels.at(0).heatmap;
  EXPECT_TRUE(heatmap.logarithmic);
  EXPECT_GT(heatmap.low, 0);
  EXPECT_LE(heatmap.low, heatmap.high);
  EXPECT_FLOAT_EQ(heatmap.high, 1) << "the first query sees itself alone";
}

}  // namespace
}  // namespace keyscope::figures
