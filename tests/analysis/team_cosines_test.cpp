#include "analysis/team_cosines.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/quick_cosines.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

// Both keep within 12 · 2^-24 of the cosine.
constexpr double kTolerance = 24 * 0x1p-24;

std::vector<std::vector<double>> by_team(const std::vector<RowMatrixF>& heads, int n_threads) {
  std::vector<MatrixView> views;
  std::vector<std::vector<double>> cosines;
  std::vector<std::span<double>> spans;
  for (const RowMatrixF& rows : heads) {
    views.emplace_back(rows);
    cosines.emplace_back(static_cast<std::size_t>(rows.rows()), 7.0);
  }
  for (auto& head : cosines) spans.emplace_back(head);
  cosines_with_means(views, spans, n_threads);
  return cosines;
}

std::vector<double> alone(const RowMatrixF& rows) {
  const RowMoments moments = row_moments(rows);
  std::vector<double> cosines(static_cast<std::size_t>(rows.rows()));
  quick_cosines(rows, moments.inverse_norms, QuickAnchor(moments.mean), cosines);
  return cosines;
}

std::vector<RowMatrixF> heads_of_all_sizes() {
  std::vector<RowMatrixF> heads;
  for (const Index n_rows : {300, 0, 1, 2, 15, 16, 17, 64, 1031, 3100})
    for (const Index n_cols : {1, 31, 128})
      heads.push_back(sample_rows(static_cast<std::uint64_t>(n_rows * n_cols + 1), n_rows, n_cols, 0.2));
  return heads;
}

TEST(TeamCosines, AreThoseOfEveryHeadAloneWithAnyNumberOfThreads) {
  const std::vector<RowMatrixF> heads = heads_of_all_sizes();
  for (const int n_threads : {1, 2, 3, 7}) {
    const auto cosines = by_team(heads, n_threads);
    for (std::size_t head = 0; head < heads.size(); ++head) {
      const std::vector<double> expected = alone(heads[head]);
      for (std::size_t row = 0; row < expected.size(); ++row)
        ASSERT_NEAR(cosines[head][row], expected[row], kTolerance)
            << n_threads << " threads, head " << head << ", row " << row;
    }
  }
}

TEST(TeamCosines, ComeOutTheSameEveryTimeWithAnyNumberOfThreads) {
  const std::vector<RowMatrixF> heads = heads_of_all_sizes();
  const auto first = by_team(heads, 1);
  for (const int n_threads : {2, 3, 7})
    for (int again = 0; again < 20; ++again) ASSERT_EQ(by_team(heads, n_threads), first);
}

TEST(TeamCosines, NotFiniteRowsSpoilTheirOwnHeadOnly) {
  std::vector<RowMatrixF> heads(3, sample_rows(5, 100, 64, 0.5));
  heads[1](70, 3) = std::numeric_limits<float>::infinity();
  const auto cosines = by_team(heads, 2);
  for (const double cosine : cosines[1]) EXPECT_TRUE(std::isnan(cosine));
  EXPECT_EQ(cosines[0], cosines[2]);
  EXPECT_NEAR(cosines[0][70], alone(heads[0])[70], kTolerance);
}

TEST(TeamCosines, OfNoHeads) { EXPECT_TRUE(by_team({}, 4).empty()); }

}  // namespace
}  // namespace keyscope::analysis
