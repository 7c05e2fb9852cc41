#include "base/json.hpp"

#include <cstdint>
#include <limits>
#include <optional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace keyscope {

namespace {

TEST(JsonNumber, IsNullForWhatJsonHasNoNumberFor) {
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(json_text(json_number(0.25)), "0.25");
  EXPECT_TRUE(json_number(Limits::quiet_NaN()).is_null());
  EXPECT_TRUE(json_number(-Limits::infinity()).is_null());
  EXPECT_TRUE(json_number(std::optional<double>()).is_null());
  EXPECT_TRUE(json_number(std::optional(Limits::quiet_NaN())).is_null());
  EXPECT_EQ(json_number(std::optional(1e-300)), 1e-300);
}

TEST(JsonNumber, CountsStayWhole) {
  EXPECT_EQ(json_text(json_number(std::optional<std::int64_t>(12))), "12");
  EXPECT_TRUE(json_number(std::optional<std::int64_t>()).is_null());
}

}  // namespace

}  // namespace keyscope
