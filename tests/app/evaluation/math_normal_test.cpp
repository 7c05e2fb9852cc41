#include "app/evaluation/math_normal.hpp"

#include <gtest/gtest.h>

#include "tests/app/evaluation/evaluation_goldens.hpp"

namespace keyscope::evaluation {
namespace {

TEST(MathNormal, EqualsTheHarness) {
  const nlohmann::json goldens = read_goldens("math_goldens.json", "answers");
  ASSERT_GT(goldens.size(), 100U);
  for (const auto& golden : goldens) {
    const auto text = golden["text"].get<std::string>();
    SCOPED_TRACE(text);
    EXPECT_EQ(minerva_normal(text), golden["minerva"].get<std::string>());
    const auto hendrycks = hendrycks_normal(text);
    const auto expected = golden["hendrycks"];
    EXPECT_EQ(hendrycks, expected.is_null() ? std::nullopt : std::optional(expected.get<std::string>()));
  }
}

}  // namespace
}  // namespace keyscope::evaluation
