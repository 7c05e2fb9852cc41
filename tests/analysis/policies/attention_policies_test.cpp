// Policies that score by attention, on weights small enough to check by eye.

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"

namespace keyscope::analysis {
namespace {

struct Scored {
  std::vector<double> scores;
  std::vector<std::uint8_t> forced;
};

// What a policy makes of rows without keys, by their attention alone.
struct Attention {
  std::vector<double> received;
  std::vector<std::int32_t> queries;
  std::vector<float> window_sums;

  Scored scored_by(const std::string& policy, std::int64_t budget) const {
    const auto made = make_policy(parse_policy(policy), 0);
    const std::size_t n_rows = received.empty() ? window_sums.size() : received.size();
    std::vector<std::int32_t> positions(n_rows);
    std::iota(positions.begin(), positions.end(), 0);
    const RowMatrixF none(0, 0);
    const PolicyInput input{.keys = none,
                            .values = none,
                            .positions = positions,
                            .attention_received = received,
                            .attention_queries = queries,
                            .window_sums = window_sums};
    Scored result{std::vector<double>(n_rows), std::vector<std::uint8_t>(n_rows)};
    made->score(input, result.scores);
    made->force(input, budget, result.forced);
    return result;
  }
};

using Doubles = std::vector<double>;
using Flags = std::vector<std::uint8_t>;

TEST(H2o, ScoresBySumOrByMean) {
  const Attention attention{{3, 1, 0.5, 0}, {4, 2, 1, 0}, {}};
  EXPECT_EQ(attention.scored_by("h2o", 2).scores, (Doubles{3, 1, 0.5, 0}));
  EXPECT_EQ(attention.scored_by("h2o:normalize=1", 2).scores, (Doubles{0.75, 0.5, 0.5, 0}));
  EXPECT_EQ(attention.scored_by("h2o", 2).forced, (Flags{0, 0, 0, 0}));
  EXPECT_EQ(attention.scored_by("h2o:recent=0.5", 3).forced, (Flags{0, 0, 1, 1})) << "half of three, half up";
}

TEST(H2o, NeedsItsSums) {
  const Attention attention{{}, {}, {1, 2}};
  EXPECT_THROW(attention.scored_by("h2o", 1), InvalidInput);
}

TEST(SnapKv, PoolsOverZerosBeyondTheEnds) {
  const Attention attention{{}, {}, {3, 0, 6, 9}};
  EXPECT_EQ(attention.scored_by("snapkv:kernel=3,recent=0", 2).scores, (Doubles{1, 3, 5, 5}));
  EXPECT_EQ(attention.scored_by("snapkv:kernel=1,recent=0", 2).scores, (Doubles{3, 0, 6, 9}));
  EXPECT_EQ(attention.scored_by("snapkv:kernel=9,recent=0", 2).scores, (Doubles{2, 2, 2, 2}));
}

TEST(SnapKv, ForcesTheMostRecentWithinTheBudget) {
  const Attention attention{{}, {}, {3, 0, 6, 9}};
  EXPECT_EQ(attention.scored_by("snapkv", 3).forced, (Flags{0, 1, 1, 1}));
  EXPECT_EQ(attention.scored_by("snapkv:recent=1", 3).forced, (Flags{0, 0, 0, 1}));
}

TEST(SnapKv, AsksForItsWindowAndRefusesAnEvenKernel) {
  EXPECT_EQ(make_policy(parse_policy("snapkv"), 0)->needs().window, 32);
  EXPECT_EQ(make_policy(parse_policy("snapkv:window=5"), 0)->needs().window, 5);
  EXPECT_THROW(parse_policy("snapkv:kernel=4"), UsageError);
  EXPECT_THROW(parse_policy("snapkv:window=0"), UsageError);
}

}  // namespace
}  // namespace keyscope::analysis
