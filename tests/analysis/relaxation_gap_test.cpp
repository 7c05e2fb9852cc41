#include "analysis/relaxation_gap.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "base/errors.hpp"
#include "tests/support/dense_algebra.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Rows = std::vector<std::int32_t>;

constexpr SearchOptions kSearchOnly{.max_subsets = 0};

double objective_of(const RowMatrixF& keys, const Rows& rows) {
  RowMatrixF kept(static_cast<Index>(rows.size()), keys.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) kept.row(static_cast<Index>(i)) = keys.row(rows[i]);
  return pairwise_cosines(kept).sum;
}

TEST(RelaxationGap, MatchesAllCombinationsInPython) {
  for (const auto& golden : read_goldens("geometry_goldens.json", "subsets")) {
    const RowMatrixF keys = sample_rows(golden["seed"].get<std::uint64_t>(), golden["n"].get<Index>(),
                                        golden["d"].get<Index>(), golden["offset"].get<double>());
    const auto budget = golden["budget"].get<std::int64_t>();
    const RelaxationGap gap = relaxation_gap(keys, budget);
    EXPECT_TRUE(gap.exhaustive);
    EXPECT_EQ(gap.best, golden["best"].get<Rows>());
    EXPECT_EQ(gap.seed, golden["relaxed"].get<Rows>());
    EXPECT_NEAR(gap.best_objective, golden["best_objective"].get<double>(), 1e-12);
    EXPECT_NEAR(gap.seed_objective, golden["relaxed_objective"].get<double>(), 1e-12);
    const RelaxationGap searched = relaxation_gap(keys, budget, kSearchOnly);
    EXPECT_FALSE(searched.exhaustive);
    EXPECT_GE(searched.best_objective, gap.best_objective - 1e-12) << "nothing is below the optimum";
  }
}

TEST(RelaxationGap, WorkedByHand) {
  // Four keys one way, two the other: both of these are least like the mean, and the worst pair there is.
  RowMatrixF keys(6, 2);
  keys << 1, 0, 2, 0, 3, 0, 4, 0, -1, 0, -2, 0;
  for (const SearchOptions& options : {SearchOptions{}, kSearchOnly}) {
    const RelaxationGap gap = relaxation_gap(keys, 2, options);
    EXPECT_EQ(gap.seed, (Rows{4, 5}));
    EXPECT_EQ(gap.seed_objective, 4);
    EXPECT_EQ(gap.best_objective, 0) << "one of each";
    EXPECT_EQ(gap.gap(), 4);
    EXPECT_TRUE(gap.converged);
  }
}

TEST(RelaxationGap, SearchNeverLosesAndReportsWhatItFound) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const RowMatrixF keys = sample_rows(seed, 200, 8, 0.3);
    const RelaxationGap gap = relaxation_gap(keys, 60);
    EXPECT_FALSE(gap.exhaustive);
    EXPECT_TRUE(gap.converged);
    EXPECT_LT(gap.best_objective, gap.seed_objective);
    EXPECT_NEAR(gap.best_objective, objective_of(keys, gap.best), 1e-9);
    EXPECT_NEAR(gap.seed_objective, objective_of(keys, gap.seed), 1e-9);
    EXPECT_EQ(gap.best.size(), 60U);
    EXPECT_TRUE(std::is_sorted(gap.best.begin(), gap.best.end()));
    EXPECT_EQ(std::adjacent_find(gap.best.begin(), gap.best.end()), gap.best.end());
  }
}

TEST(RelaxationGap, SearchComesCloseToTheOptimum) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RowMatrixF keys = sample_rows(seed, 14, 6, 0.3);
    const RelaxationGap optimum = relaxation_gap(keys, 6);
    const RelaxationGap searched = relaxation_gap(keys, 6, kSearchOnly);
    ASSERT_TRUE(optimum.exhaustive);
    worst = std::max(worst, (searched.best_objective - optimum.best_objective) / optimum.seed_objective);
  }
  EXPECT_LE(worst, 0.2) << "of the seed's objective";
}

TEST(RelaxationGap, IgnoresScaleAndRotation) {
  const RowMatrixF keys = sample_rows(3, 60, 8, 0.2);
  const MatrixXd rotation = random_rotation(4, 8);
  const RelaxationGap gap = relaxation_gap(keys, 20);
  EXPECT_EQ(relaxation_gap(RowMatrixF(keys * 0x1p20F), 20).best, gap.best);
  EXPECT_EQ(relaxation_gap(keys, 20).best, gap.best) << "no chance in it";
  const RelaxationGap turned = relaxation_gap((keys.cast<double>() * rotation).cast<float>(), 20);
  EXPECT_NEAR(turned.seed_objective, gap.seed_objective, 1e-4);
}

TEST(RelaxationGap, StopsAfterItsSweeps) {
  const RowMatrixF keys = sample_rows(5, 300, 8, 0.3);
  const RelaxationGap none = relaxation_gap(keys, 100, {.max_subsets = 0, .max_sweeps = 0});
  EXPECT_EQ(none.best, none.seed);
  EXPECT_EQ(none.gap(), 0);
  EXPECT_FALSE(none.converged);
  const RelaxationGap one = relaxation_gap(keys, 100, {.max_subsets = 0, .max_sweeps = 1});
  EXPECT_EQ(one.n_sweeps, 1);
  EXPECT_GT(one.n_exchanges, 0);
}

TEST(RelaxationGap, EdgesOfTheInput) {
  const RowMatrixF keys = sample_rows(6, 5, 3);
  for (const std::int64_t budget : {5, 9}) {  // everything stays
    const RelaxationGap whole = relaxation_gap(keys, budget);
    EXPECT_EQ(whole.best, (Rows{0, 1, 2, 3, 4}));
    EXPECT_EQ(whole.gap(), 0);
    EXPECT_TRUE(whole.exhaustive);
  }
  EXPECT_EQ(relaxation_gap(RowMatrixF::Ones(50, 4), 20).gap(), 0) << "duplicates: every set is as good";
  EXPECT_EQ(relaxation_gap(RowMatrixF::Zero(50, 4), 20).best_objective, 0);
  EXPECT_EQ(relaxation_gap(keys.topRows(1), 1).best, (Rows{0}));
  EXPECT_THROW(relaxation_gap(RowMatrixF(0, 4), 1), InvalidInput);
  EXPECT_THROW(relaxation_gap(keys, 0), InvalidInput);
  EXPECT_THROW(relaxation_gap(keys, 2, {.max_subsets = -1}), InvalidInput);
  EXPECT_THROW(relaxation_gap(keys, 2, {.max_sweeps = -1}), InvalidInput);
  RowMatrixF bad = keys;
  bad(1, 1) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(relaxation_gap(bad, 2), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
