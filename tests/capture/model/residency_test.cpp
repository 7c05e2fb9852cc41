#include "capture/model/memory.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr WeightBytes kWeights{.all = 26 * kGiB, .outside_layers = 2 * kGiB, .largest_layer = kGiB};

std::string complaint(bool may_stream, std::int64_t available) {
  try {
    choose_residency(kWeights, may_stream, available);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Residency, IsWholeWhereAllWeightsFit) {
  EXPECT_EQ(choose_residency(kWeights, false, 26 * kGiB), Residency::kWhole);
  EXPECT_EQ(choose_residency(kWeights, true, 33 * kGiB), Residency::kWhole);
}

TEST(Residency, IsStreamedWhereThreeLayersFitAndTheScheduleAllowsIt) {
  EXPECT_EQ(choose_residency(kWeights, true, 30 * kGiB), Residency::kStreamed) << "no room to work in";
  EXPECT_EQ(choose_residency(kWeights, true, 5 * kGiB), Residency::kStreamed);
}

TEST(Residency, ARefusalNamesBothFiguresAndTheScheduleThatWouldFit) {
  EXPECT_THAT(complaint(false, 24 * kGiB),
              AllOf(HasSubstr("26.0 GiB"), HasSubstr("24.0 GiB"), HasSubstr("block schedule"),
                    HasSubstr("--schedule layer) would need 5.0 GiB")));
  EXPECT_THAT(complaint(true, 4 * kGiB),
              AllOf(HasSubstr("5.0 GiB"), HasSubstr("4.0 GiB"), HasSubstr("layer schedule")));
  EXPECT_THAT(complaint(false, 4 * kGiB), AllOf(HasSubstr("26.0 GiB"), Not(HasSubstr("--schedule"))));
}

}  // namespace
}  // namespace keyscope::capture
