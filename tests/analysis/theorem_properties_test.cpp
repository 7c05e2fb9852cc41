// Theorem 3.2, and the reading of Lemma 3.1 that needs no assumptions, on ten million pairs: heads drawn at
// random, and heads built to come as close to the bounds as they can.

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/theorem_bounds.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

struct Head {
  std::string kind;
  RowMatrixF keys, queries;
};

constexpr Index kKeys = 500;
constexpr Index kQueries = 1000;

Head random_head(std::uint64_t seed, Index cols) {
  return {"random", sample_rows(seed, kKeys, cols, 0.3), sample_rows(seed + 500, kQueries, cols, -0.2)};
}

// Key norms over 40 octaves: the mean key is that of a few.
Head uneven_head(std::uint64_t seed, Index cols) {
  Head head = random_head(seed, cols);
  head.kind = "uneven";
  const auto exponents = sample_uniform(seed + 1, kKeys);
  for (Index i = 0; i < kKeys; ++i)
    head.keys.row(i) *= static_cast<float>(std::exp2(40 * exponents[static_cast<std::size_t>(i)] - 20));
  return head;
}

// All in one plane, where the spherical bound is met with equality, and at α = -β, where the paper's bound
// equals the spherical one.
Head plane_head(std::uint64_t seed, Index /*cols*/) {
  Head head{"plane", RowMatrixF(kKeys, 2), RowMatrixF(kQueries, 2)};
  const auto angles = sample_uniform(seed, kKeys + kQueries);
  const auto turn = [&](RowMatrixF& rows, Index i, Index draw) {
    const double angle = 2 * M_PI * angles[static_cast<std::size_t>(draw)];
    rows(i, 0) = static_cast<float>(std::cos(angle));
    rows(i, 1) = static_cast<float>(std::sin(angle));
  };
  for (Index i = 0; i < kKeys; ++i) turn(head.keys, i, i);
  for (Index i = 0; i < kQueries; ++i) turn(head.queries, i, kKeys + i);
  head.keys.col(0).array() += 0.1F;
  return head;
}

// Keys that differ from their mean by float32's last bits, queries at right angles to it within as much.
Head narrow_head(std::uint64_t seed, Index cols) {
  Head head = random_head(seed, cols);
  head.kind = "narrow";
  head.keys *= 1e-6F;
  head.keys.col(0).array() += 1;
  head.queries.col(0) *= 1e-6F;
  return head;
}

// Queries along or against single keys: cosines of ±1, weights that go to 0 and to 1.
Head aligned_head(std::uint64_t seed, Index cols) {
  Head head = random_head(seed, cols);
  head.kind = "aligned";
  for (Index i = 0; i < kQueries; ++i)
    head.queries.row(i) = head.keys.row(i % kKeys) * (i % 3 == 0 ? -300.0F : 300.0F);
  return head;
}

template <typename Visit>
void visit_heads(int n_rounds, const Visit& visit) {
  using Make = std::function<Head(std::uint64_t, Index)>;
  const std::vector<Make> kinds{random_head, uneven_head, plane_head, narrow_head, aligned_head};
  std::uint64_t seed = 0;
  for (int round = 0; round < n_rounds; ++round)
    for (const Make& make : kinds)
      for (const Index cols : {1, 2, 8, 32}) visit(make(++seed, cols));
}

TEST(TheoremProperties, TheMeanKeyBoundHoldsOnTenMillionPairs) {
  std::int64_t n_pairs = 0;
  double least = 1;
  visit_heads(12, [&](const Head& head) {
    const std::vector<std::int32_t> positions(kQueries, kKeys - 1);
    const auto bounds = mean_key_bounds(head.keys, head.queries, positions);
    n_pairs += bounds.pairs;
    EXPECT_EQ(bounds.violations, 0) << head.kind << ", " << head.keys.cols() << " columns";
    EXPECT_EQ(bounds.slack.count(), bounds.pairs);
    if (bounds.pairs == 0) return;
    EXPECT_GE(bounds.min_slack, -1e-12) << head.kind;
    EXPECT_GE(bounds.min_slack_exact, -3e-8) << head.kind;
    least = std::min(least, bounds.min_slack);
  });
  EXPECT_GE(n_pairs, 10'000'000) << "pairs that meet its hypotheses";
  EXPECT_LE(least, 1e-6) << "and come close to it";
}

TEST(TheoremProperties, TheUnconditionalLemmaHoldsOnTenMillionPairs) {
  std::int64_t n_pairs = 0;
  visit_heads(1, [&](const Head& head) {
    const std::vector<std::int32_t> positions(kQueries, kKeys - 1);
    const auto bounds = attention_weight_bounds(head.keys, head.queries, positions);
    n_pairs += bounds.pairs;
    EXPECT_EQ(bounds.always.violations, 0) << head.kind << ", " << head.keys.cols() << " columns";
    EXPECT_EQ(bounds.proof.violations, 0) << head.kind << ", " << head.keys.cols() << " columns";
    EXPECT_EQ(bounds.always.slack.count(), bounds.pairs);
  });
  EXPECT_GE(n_pairs, 10'000'000);
}

}  // namespace
}  // namespace keyscope::analysis
