#include "app/figures/keyspace_data.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/dense_algebra.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::NanSensitiveFloatEq;

constexpr float kNotEvicted = NAN;

// Six tokens in blocks of two in the plane; token 1 goes after block 1, tokens 0 and 2 after block 2.
FakeRecording four_policies() {
  FakeRecording recording(1, 2, 1, 2, 6, 2);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 3);
  recording.add_run("l2norm", 3);
  recording.add_run("h2o", 3);
  for (const int run : {0, 1, 2, 3}) {
    recording.keys_of(run, 0, 0) << 1, 0, 0, 1, 1, 0, 3, 4, 1, 1, 0, -2;
    recording.evicted_at(run, 0, 0) =
        run == 0 ? std::vector<std::int32_t>(6, -1) : std::vector<std::int32_t>{2, 1, 2, -1, -1, -1};
  }
  return recording;
}

KeyValues values_of(const FakeRecording& recording, int run, std::int64_t block, KeyColour colour) {
  const std::int64_t n_seen = 2 * (block + 1);
  return key_values(recording, *recording.info(), {run, 0, 0, block, n_seen}, colour,
                    recording.keys(run, 0, 0, 0, n_seen), recording.trace(run, 0, 0));
}

TEST(KeyValues, ScoresAreThePolicysOfTheRowsItHad) {
  const FakeRecording recording = four_policies();
  // Before it evicts at the end of block 1, KeyDiff has all four rows, of which the mean is (5, 5) / 4.
  const KeyValues first = values_of(recording, 1, 1, KeyColour::kScore);
  const float half = -std::sqrt(0.5F);
  EXPECT_THAT(first.values, ElementsAre(FloatNear(half, 1e-6F), FloatNear(half, 1e-6F),
                                        FloatNear(half, 1e-6F), FloatNear(-7 / std::sqrt(50.0F), 1e-6F)));
  EXPECT_EQ(first.scale.long_name, "score by keydiff");
  // At the end of block 2 token 1 is gone: the mean is that of the other five, (6, 3) / 5.
  const KeyValues second = values_of(recording, 1, 2, KeyColour::kScore);
  EXPECT_TRUE(std::isnan(second.values[1]));
  EXPECT_NEAR(second.values[0], -2 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(second.values[5], 1 / std::sqrt(5.0), 1e-6);
  EXPECT_FLOAT_EQ(second.scale.high, second.values[5]);
  EXPECT_THAT(values_of(recording, 2, 0, KeyColour::kScore).values, ElementsAre(-1, -1)) << "-‖k‖";
}

TEST(KeyValues, ARunThatRanksNothingIsScoredByKeyDiff) {
  const FakeRecording recording = four_policies();
  EXPECT_EQ(values_of(recording, 0, 1, KeyColour::kScore).values,
            values_of(recording, 1, 1, KeyColour::kScore).values);
  EXPECT_THAT(values_of(recording, 0, 1, KeyColour::kScore).scale.long_name, HasSubstr("nothing is evicted"));
}

TEST(KeyValues, MarginsAreOfWhatWasEvictedByThen) {
  const FakeRecording recording = four_policies();
  recording::HeadTrace trace = recording.trace(1, 0, 0);
  trace.evicted_margin = {0.5F, 0.25F, kNotEvicted, kNotEvicted, kNotEvicted, kNotEvicted};
  const auto margins = [&](std::int64_t block) {
    const std::int64_t n_seen = 2 * (block + 1);
    return key_values(recording, *recording.info(), {1, 0, 0, block, n_seen}, KeyColour::kMargin,
                      recording.keys(1, 0, 0, 0, n_seen), trace);
  };
  const auto none = NanSensitiveFloatEq(kNotEvicted);
  EXPECT_THAT(margins(1).values, ElementsAre(none, 0.25F, none, none));
  EXPECT_THAT(margins(2).values, ElementsAre(0.5F, 0.25F, none, none, none, none));
  EXPECT_EQ(margins(2).scale.low, 0.25F);
  EXPECT_EQ(margins(2).scale.high, 0.5F);
}

TEST(KeyValues, PositionsAttentionAndClassesAreOfEveryTokenSeen) {
  const FakeRecording recording = four_policies();
  EXPECT_THAT(values_of(recording, 1, 1, KeyColour::kPosition).values, ElementsAre(0, 1, 2, 3));
  const auto attention = values_of(recording, 1, 1, KeyColour::kAttention);
  const auto trace = recording.trace(1, 0, 0);
  for (std::size_t i = 0; i < attention.values.size(); ++i)
    EXPECT_FLOAT_EQ(attention.values[i], static_cast<float>(trace.attention_received[i]));
  EXPECT_TRUE(attention.scale.logarithmic);
  EXPECT_GT(attention.scale.low, 0);
  const auto classes = values_of(recording, 1, 1, KeyColour::kTokenClass);
  EXPECT_EQ(classes.scale.categories.size(), 6U);
  EXPECT_THAT(classes.values, testing::Each(0)) << "the prompt is letters";
}

TEST(KeyValues, WhatARecordingDoesNotHoldIsRefusedWithItsReason) {
  FakeRecording recording = four_policies();
  const auto& info = *recording.info();
  EXPECT_THAT(colour_refusal(info, 3, KeyColour::kScore), HasSubstr("attention weights"));
  EXPECT_THROW(values_of(recording, 3, 1, KeyColour::kScore), UsageError);
  recording.edit_info().runs[3].plan.parameters = R"({"oracle": "attention_received", "recent": 0})";
  EXPECT_THAT(colour_refusal(info, 3, KeyColour::kScore), HasSubstr("attention weights"));
  EXPECT_THAT(colour_refusal(info, 0, KeyColour::kMargin), HasSubstr("evicts nothing"));
  EXPECT_EQ(colour_refusal(info, 1, KeyColour::kMargin), "");
  EXPECT_EQ(colour_refusal(info, 1, KeyColour::kAttention), "");
  recording.edit_info().runs[1].plan.replayed = true;
  EXPECT_THAT(colour_refusal(info, 1, KeyColour::kAttention), HasSubstr("nothing attended"));
  recording.edit_info().runs[1].plan.cache_positions = true;
  EXPECT_THAT(colour_refusal(info, 1, KeyColour::kScore), HasSubstr("place in the cache"));
}

// Two keys at (±2, 0), two queries at (0, ±1): the axes are x and y, the variances 8 and 2 of 10.
FakeRecording cross() {
  FakeRecording recording(1, 1, 1, 2, 2, 2);
  recording.add_run("none", 0);
  recording.keys_of(0, 0, 0) << 2, 0, -2, 0;
  recording.queries_of(0, 0, 0) << 0, 1, 0, -1;
  return recording;
}

TEST(KeyspaceBasis, KeysAndQueriesShareOneMeanAndAxes) {
  const KeyspaceBasis basis = fit_keyspace_basis(cross(), 0, 0);
  EXPECT_TRUE(basis.with_queries);
  EXPECT_NEAR(basis.mean.norm(), 0, 1e-15);
  EXPECT_NEAR(std::abs(basis.axes(0, 0)), 1, 1e-12);
  EXPECT_NEAR(std::abs(basis.axes(1, 1)), 1, 1e-12);
  EXPECT_NEAR(basis.explained[0], 0.8, 1e-12);
  EXPECT_NEAR(basis.explained[1], 0.2, 1e-12);
  EXPECT_EQ(basis.axes.col(2).norm(), 0) << "two coordinates have no third axis";
  EXPECT_TRUE(std::isnan(basis.explained[2]));
  EXPECT_EQ(component_label(basis, 0), "PC 1 (80.0 %)");
  EXPECT_EQ(component_label(basis, 2), "PC 3");
}

TEST(KeyspaceBasis, WithoutQueriesTheKeysAreAllVariance) {
  FakeRecording recording = cross();
  recording.edit_info().queries = false;
  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 0);
  EXPECT_FALSE(basis.with_queries);
  EXPECT_NEAR(basis.explained[0], 1, 1e-12);
}

TEST(KeyspaceBasis, IsThatOfTheNoneRunWhereverItStands) {
  FakeRecording recording(1, 2, 1, 4, 60, 10);
  recording.add_run("sink", 8);
  recording.add_run("none", 0);
  recording.fill(5);
  recording.keys_of(0, 0, 0) *= 7;
  EXPECT_EQ(fit_keyspace_basis(recording, 0, 0).run, 1);
}

TEST(KeyspaceBasis, ASketchOfFewTokensIsTheWhole) {
  FakeRecording recording(1, 4, 2, 6, 30, 16);
  recording.add_run("none", 0);
  recording.fill(4);
  const KeyspaceBasis whole = fit_keyspace_basis(recording, 0, 1),
                      sketch = sketch_keyspace_basis(recording, 0, 1);
  EXPECT_LT((sketch.mean - whole.mean).norm(), 1e-12);
  for (int axis = 0; axis < 3; ++axis)
    EXPECT_NEAR(std::abs(sketch.axes.col(axis).dot(whole.axes.col(axis))), 1, 1e-9);
}

TEST(KeyspaceBasis, ASketchOfManyTokensIsNear) {
  FakeRecording recording(1, 2, 1, 6, 20000, 16);
  recording.add_run("none", 0);
  recording.fill(4);
  for (Eigen::Index column = 0; column < 6; ++column) {  // variances that differ
    recording.keys_of(0, 0, 0).col(column) *= static_cast<float>(6 - column);
    for (int head : {0, 1}) recording.queries_of(0, 0, head).col(column) *= static_cast<float>(6 - column);
  }
  const KeyspaceBasis whole = fit_keyspace_basis(recording, 0, 0),
                      sketch = sketch_keyspace_basis(recording, 0, 0);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto column = static_cast<Eigen::Index>(axis);
    EXPECT_GT(std::abs(sketch.axes.col(column).dot(whole.axes.col(column))), 0.95) << "axis " << axis;
    EXPECT_NEAR(sketch.explained[axis], whole.explained[axis], 0.05) << "axis " << axis;
  }
}

// The covariance's eigenvectors, written out: (n - 1) C = Σ (r - mean)(r - mean)ᵀ over keys and the group's
// queries.
TEST(KeyspaceBasis, AgreesWithTheCovarianceWrittenOut) {
  FakeRecording recording(1, 4, 2, 6, 50, 16);
  recording.add_run("none", 0);
  recording.fill(3);
  RowMatrixD rows(150, 6);
  rows << recording.keys_of(0, 0, 1).cast<double>(), recording.queries_of(0, 0, 2).cast<double>(),
      recording.queries_of(0, 0, 3).cast<double>();
  const Eigen::RowVectorXd mean = rows.colwise().mean();
  const RowMatrixD centred = rows.rowwise() - mean;
  const auto [variances, axes] = all_eigenpairs(dense_gram(centred));

  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 1);
  const RowMatrixF coordinates = project_rows(basis, recording.keys_of(0, 0, 1), 3);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(basis.explained[c], variances[c] / variances.sum(), 1e-12);
    const Eigen::VectorXd expected = centred.topRows(50) * axes.col(c);
    const double sign = expected.dot(coordinates.col(c).cast<double>()) < 0 ? -1 : 1;
    EXPECT_LT((sign * expected - coordinates.col(c).cast<double>()).cwiseAbs().maxCoeff(), 1e-5);
  }
}

TEST(KeyspaceBasis, OverNoTokensIsZero) {
  FakeRecording recording(1, 1, 1, 2, 2, 2);
  recording.add_run("none", 0);
  recording.edit_info().runs[0].n_tokens = 0;
  recording.edit_info().runs[0].blocks_done = 0;
  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 0);
  EXPECT_EQ(basis.axes.norm(), 0);
  EXPECT_EQ(component_label(basis, 0), "PC 1");
}

TEST(KeyspaceBasis, RefusesWhatIsNotThere) {
  FakeRecording recording = cross();
  EXPECT_THROW(fit_keyspace_basis(recording, 1, 0), UsageError);
  EXPECT_THROW(fit_keyspace_basis(recording, 0, 1), UsageError);
  EXPECT_THROW(fit_keyspace_basis(recording, 0, -1), UsageError);
  const KeyspaceBasis basis = fit_keyspace_basis(recording, 0, 0);
  EXPECT_THROW(project_rows(basis, RowMatrixF::Zero(1, 3), 2), InvalidInput);
  EXPECT_THROW(project_rows(basis, RowMatrixF::Zero(1, 2), 4), InvalidInput);
  recording.edit_info().keys = false;
  EXPECT_THROW(fit_keyspace_basis(recording, 0, 0), FileError);
}

}  // namespace

}  // namespace keyscope::figures
