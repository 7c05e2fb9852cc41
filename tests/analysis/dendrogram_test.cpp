#include "analysis/dendrogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "base/errors.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Indices = std::vector<Index>;

Dendrogram dendrogram_of(const RowMatrixF& rows) {
  return average_linkage(cosine_distances(rows), rows.rows());
}

std::vector<double> heights_of(const Dendrogram& dendrogram) {
  std::vector<double> heights;
  for (const Merge& merge : dendrogram.merges) heights.push_back(merge.height);
  return heights;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << "merge " << i;
}

// The definition: the mean over all pairs of rows, for every two clusters anew, in float64.
std::vector<double> heights_by_definition(const RowMatrixF& rows) {
  const RowMatrixD cosines = cosine_matrix(rows);
  std::vector<Indices> clusters;
  for (Index row = 0; row < rows.rows(); ++row) clusters.push_back({row});
  const auto distance = [&](const Indices& a, const Indices& b) {
    double sum = 0;
    for (const Index i : a)
      for (const Index j : b) sum += 1 - cosines(i, j);
    return sum / static_cast<double>(a.size() * b.size());
  };
  std::vector<double> heights;
  while (clusters.size() > 1) {
    std::size_t first = 0, second = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < clusters.size(); ++a)
      for (std::size_t b = a + 1; b < clusters.size(); ++b)
        if (const double found = distance(clusters[a], clusters[b]); found < least)
          least = found, first = a, second = b;
    clusters[first].insert(clusters[first].end(), clusters[second].begin(), clusters[second].end());
    clusters.erase(clusters.begin() + static_cast<std::ptrdiff_t>(second));
    heights.push_back(least);
  }
  return heights;
}

// Which rows each cluster holds, by its number.
std::vector<Indices> members(const Dendrogram& dendrogram) {
  std::vector<Indices> clusters;
  for (std::size_t row = 0; row < dendrogram.leaves.size(); ++row)
    clusters.push_back({static_cast<Index>(row)});
  for (const Merge& merge : dendrogram.merges) {
    Indices both = clusters.at(merge.first);
    const Indices& other = clusters.at(merge.second);
    both.insert(both.end(), other.begin(), other.end());
    clusters.push_back(both);
  }
  return clusters;
}

// Every cluster side by side, the smaller row number's side first.
void expect_leaves_in_order(const Dendrogram& dendrogram) {
  std::vector<Index> place(dendrogram.leaves.size());
  for (std::size_t i = 0; i < place.size(); ++i) place.at(dendrogram.leaves[i]) = static_cast<Index>(i);
  const auto clusters = members(dendrogram);
  const auto first_place = [&](const Indices& rows) {
    return std::ranges::min(rows, {}, [&](Index row) { return place[row]; });
  };
  for (const Indices& rows : clusters) {
    const auto [low, high] = std::ranges::minmax(rows, {}, [&](Index row) { return place[row]; });
    EXPECT_EQ(place[high] - place[low] + 1, std::ssize(rows));
    EXPECT_EQ(first_place(rows), std::ranges::min(rows)) << "the smallest row leads its cluster";
  }
}

TEST(Dendrogram, IsSciPys) {
  for (const auto& golden : read_goldens("dendrogram_goldens.json", "trees")) {
    const Dendrogram found = dendrogram_of(sample_rows(golden));
    const auto merges = golden["merges"].get<std::vector<std::vector<std::int32_t>>>();
    ASSERT_EQ(found.merges.size(), merges.size());
    for (std::size_t k = 0; k < merges.size(); ++k) {
      EXPECT_EQ(found.merges[k].first, merges[k].at(0)) << "merge " << k << " of seed " << golden["seed"];
      EXPECT_EQ(found.merges[k].second, merges[k].at(1)) << "merge " << k << " of seed " << golden["seed"];
      EXPECT_EQ(found.merges[k].n_rows, merges[k].at(2));
    }
    expect_near(heights_of(found), golden["heights"].get<std::vector<double>>(), 1e-6);
    expect_leaves_in_order(found);
  }
}

TEST(Dendrogram, IsThatOfTheDefinition) {
  for (const auto& [seed, n, d, offset] :
       {std::tuple{1U, 60, 12, 0.0}, std::tuple{2U, 45, 3, 0.5}, std::tuple{3U, 7, 128, 0.2}}) {
    const RowMatrixF rows = sample_rows(seed, n, d, offset);
    expect_near(heights_of(dendrogram_of(rows)), heights_by_definition(rows), 1e-6);
  }
}

TEST(Dendrogram, DuplicatesAreOneClusterFirst) {
  const auto golden = read_goldens("dendrogram_goldens.json", "duplicates");
  const RowMatrixF once = sample_rows(196, 30, 12, 0.3);
  RowMatrixF twice(60, 12);
  for (Index row = 0; row < 60; ++row) twice.row(row) = once.row(row / 2);
  const Dendrogram found = dendrogram_of(twice);
  expect_near(heights_of(found), golden["heights"].get<std::vector<double>>(), 1e-6);
  expect_leaves_in_order(found);
  for (std::size_t k = 0; k < 30; ++k) {
    EXPECT_EQ(found.merges[k].second, found.merges[k].first + 1) << "a row and its double";
    EXPECT_NEAR(found.merges[k].height, 0, 1e-6);
  }
}

TEST(Dendrogram, TiesAreBrokenTheSameWayEveryTime) {
  const auto golden = read_goldens("dendrogram_goldens.json", "rank_one");
  RowMatrixF rows = sample_low_rank_rows(197, 24, 8, 1);
  Indices directed;
  for (Index row = 0; row < rows.rows(); ++row)
    if (rows.row(row).norm() > 0) directed.push_back(row);
  const RowMatrixF kept = rows(directed, Eigen::all);
  const Dendrogram found = dendrogram_of(kept);
  expect_near(heights_of(found), golden["heights"].get<std::vector<double>>(), 1e-6);
  expect_leaves_in_order(found);
  EXPECT_EQ(found.merges, dendrogram_of(kept).merges);
  // Four points at equal distances: each joins the chain's one cluster in the order of its number.
  const Dendrogram equal = average_linkage(std::vector<float>(6, 0.5F), 4);
  EXPECT_EQ(equal.leaves, (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST(Dendrogram, OfVeryFewRows) {
  EXPECT_TRUE(average_linkage({}, 0).leaves.empty());
  const Dendrogram one = average_linkage({}, 1);
  EXPECT_TRUE(one.merges.empty());
  EXPECT_EQ(one.leaves, (std::vector<std::int32_t>{0}));
  const Dendrogram two = average_linkage({0.25F}, 2);
  EXPECT_EQ(two.merges, (std::vector<Merge>{{0, 1, 0.25F, 2}}));
  EXPECT_EQ(two.leaves, (std::vector<std::int32_t>{0, 1}));
}

// Lines far apart on which points lie closer and closer: the nearest neighbour of each is the next one, which
// is the longest chain there is.
TEST(Dendrogram, OfALongChain) {
  constexpr Index n = 1000;
  std::vector<float> distances;
  for (Index a = 0; a < n; ++a)
    for (Index b = a + 1; b < n; ++b) {
      float sum = 0;
      for (const Index at : {a, b}) sum += 1.0F / static_cast<float>(at + 1);
      distances.push_back(sum);
    }
  const Dendrogram found = average_linkage(distances, n);
  expect_leaves_in_order(found);
  EXPECT_TRUE(std::ranges::is_sorted(found.merges, {}, &Merge::height));
  EXPECT_EQ(found.merges.back().n_rows, n);
}

TEST(Dendrogram, ZeroRowsStandAsideAndWhatIsNotFiniteFarthest) {
  RowMatrixF rows(5, 2);
  rows << 1, 0, 2, 0, 0, 0, -1, 0, NAN, 1;
  const std::vector<float> expected{0, 1, 2, 2, 1, 2, 2, 1, 2, 2};
  EXPECT_EQ(cosine_distances(rows), expected);
  const Dendrogram found = dendrogram_of(rows);
  EXPECT_EQ(found.leaves.size(), 5U);
  EXPECT_EQ(found.merges.back().height, 2) << "what has no place joins last";
}

TEST(Dendrogram, RefusesWhatIsNoDistance) {
  EXPECT_THROW(average_linkage({1, 2}, 3), InvalidInput);
  EXPECT_THROW(average_linkage({}, -1), InvalidInput);
  EXPECT_THROW(average_linkage({std::numeric_limits<float>::quiet_NaN()}, 2), InvalidInput);
  EXPECT_THROW(average_linkage({std::numeric_limits<float>::infinity()}, 2), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
