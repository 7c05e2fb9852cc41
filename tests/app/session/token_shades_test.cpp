#include "app/session/token_shades.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "app/session/basis_cache.hpp"
#include "app/session/tokens.hpp"
#include "tests/app/session/synthetic_recording.hpp"

namespace keyscope::session {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The text is shaded by the numbers that the token panel tells.
TEST(TokenValues, AreThoseOfTokenFacts) {
  const SyntheticRecording recording({.n_tokens = 200, .block_size = 64, .budget = 80});
  const auto info = recording.info();
  BasisCache bases;
  const auto points =
      read_head_points(recording, *info, {1, 2, 3}, bases.get(recording, *info, 2, 3), nullptr);
  for (std::int64_t block = 0; block < points->n_blocks(); ++block)
    for (const ShadeChoice& choice : shade_choices()) {
      const auto values = token_values(*info, *points, block, choice.shade);
      ASSERT_EQ(static_cast<std::int64_t>(values.size()), points->seen[static_cast<std::size_t>(block)]);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const TokenFacts facts = token_facts(*info, *points, block, static_cast<std::int64_t>(i));
        std::optional<double> expected;
        if (choice.shade == TokenShade::kScore) expected = facts.score;
        if (choice.shade == TokenShade::kAttention) expected = facts.attention_received;
        if (choice.shade == TokenShade::kPerQuery) expected = facts.attention_per_query;
        ASSERT_EQ(std::isnan(values[i]), !expected) << choice.id << " of token " << i;
        if (expected) {
          EXPECT_NEAR(values[i], *expected, 1e-12);
        }
      }
    }
}

TEST(ShadeStrengths, AreShares) {
  EXPECT_EQ(shade_strengths(std::vector<double>{5, 1, 3}), (std::vector<float>{1, 0, 0.5F}));
  EXPECT_EQ(shade_strengths(std::vector<double>{2, kNaN, 9}), (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(shade_strengths(std::vector<double>{4, 4, 4}), (std::vector<float>{0.5F, 0.5F, 0.5F}));
  EXPECT_EQ(shade_strengths(std::vector<double>{7}), std::vector<float>{0});
  EXPECT_TRUE(shade_strengths(std::vector<double>{}).empty());
}

}  // namespace
}  // namespace keyscope::session
