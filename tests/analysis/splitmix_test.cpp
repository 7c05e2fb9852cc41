#include "analysis/splitmix.hpp"

#include <gtest/gtest.h>

#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

TEST(Splitmix, GivesThePublishedStream) {
  // The first outputs for seed 1234567 that implementations are commonly checked against.
  const std::uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u};
  for (std::uint64_t t = 0; t < 3; ++t) EXPECT_EQ(splitmix(1234567 + t * kSplitmixStep), expected[t]);
}

TEST(Splitmix, NumbersLieInTheUnitInterval) {
  EXPECT_EQ(unit_interval(0), 0);
  EXPECT_LT(unit_interval(~std::uint64_t{0}), 1);
  const auto numbers = sample_uniform(9, 50);
  for (std::uint64_t t = 0; t < 50; ++t)
    EXPECT_EQ(unit_interval(splitmix(9 + t * kSplitmixStep)), numbers[static_cast<std::size_t>(t)]);
}

}  // namespace
}  // namespace keyscope::analysis
