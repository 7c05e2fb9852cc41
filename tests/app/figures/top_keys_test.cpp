#include "app/figures/top_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/head_geometry.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
