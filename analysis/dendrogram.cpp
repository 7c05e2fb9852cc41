#include "analysis/dendrogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "analysis/row_kernels.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

constexpr Index kBlockRows = 32;
constexpr float kFarthest = 2;  // of cosine distances

Index n_pairs(Index n_rows) { return n_rows * (n_rows - 1) / 2; }

// Distances of every pair, half a matrix row by row.
class HalfMatrix {
 public:
  HalfMatrix(std::vector<float>& values, Index n_rows) : values_(values), n_rows_(n_rows) {}

  float& at(Index a, Index b) {
    if (a > b) std::swap(a, b);
    return values_[a * (2 * n_rows_ - a - 3) / 2 + b - 1];
  }

 private:
  std::vector<float>& values_;
  Index n_rows_;
};

// The clusters that still stand alone, each by the number of one of its rows, and how many rows it has.
struct Clusters {
  std::vector<Index> alive;
  std::vector<std::int32_t> n_rows;

  explicit Clusters(Index n) : alive(n), n_rows(n, 1) { std::iota(alive.begin(), alive.end(), Index{0}); }
  std::int32_t& size(Index cluster) { return n_rows[cluster]; }
};

struct Neighbour {
  Index cluster = -1;
  float distance = std::numeric_limits<float>::infinity();
};

// before: the link before `from`, which wins a tie, so that a chain ends; -1: none
Neighbour nearest(HalfMatrix& distances, const Clusters& clusters, Index from, Index before) {
  Neighbour found;
  if (before >= 0) found = {before, distances.at(from, before)};
  for (const Index other : clusters.alive) {
    if (other == from) continue;
    if (const float distance = distances.at(from, other); distance < found.distance)
      found = {other, distance};
  }
  return found;
}

// `from` becomes part of `into`: of Lance and Williams' rules that of means. A mean of two floats is not
// below the smaller one, so that heights never descend from a cluster to what it becomes part of.
void join(HalfMatrix& distances, Clusters& clusters, Index from, Index into) {
  const double n_from = clusters.size(from), n_into = clusters.size(into);
  std::erase(clusters.alive, from);
  clusters.size(into) += clusters.size(from);
  for (const Index other : clusters.alive) {
    if (other == into) continue;
    float& distance = distances.at(into, other);
    const double sum =
        n_from * static_cast<double>(distances.at(from, other)) + n_into * static_cast<double>(distance);
    distance = static_cast<float>(sum / (n_from + n_into));
  }
}

// The merges in the order in which chains find them, clusters by the number of one of their rows.
std::vector<Merge> follow_chains(HalfMatrix& distances, Index n_rows) {
  Clusters clusters(n_rows);
  std::vector<Merge> merges;
  std::vector<Index> chain;
  while (clusters.alive.size() > 1) {
    if (chain.empty()) chain.push_back(clusters.alive.front());
    const Index before = chain.size() > 1 ? chain[chain.size() - 2] : -1;
    const Neighbour next = nearest(distances, clusters, chain.back(), before);
    if (next.cluster != before) {
      chain.push_back(next.cluster);
      continue;
    }
    const auto [from, into] = std::minmax({chain.back(), before});
    chain.resize(chain.size() - 2);
    join(distances, clusters, from, into);
    merges.push_back({static_cast<std::int32_t>(from), static_cast<std::int32_t>(into), next.distance,
                      clusters.size(into)});
  }
  return merges;
}

// Sorts merges by height and gives clusters the numbers that they then have. A merge of equal height that
// another one rests on was found before it, and stays so.
void number_clusters(std::vector<Merge>& merges, Index n_rows) {
  std::ranges::stable_sort(merges, {}, &Merge::height);
  // Of each row the last cluster that was made of it, by way of those between.
  std::vector<std::int32_t> parent(n_rows + std::ssize(merges));
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](std::int32_t cluster) {
    while (parent[cluster] != cluster) {
      std::int32_t& up = parent[cluster];
      up = parent[up];  // halves the way for those who come after
      cluster = up;
    }
    return cluster;
  };
  auto made = static_cast<std::int32_t>(n_rows);
  for (Merge& merge : merges) {
    const std::int32_t a = root(merge.first), b = root(merge.second);
    merge.first = std::min(a, b);
    merge.second = std::max(a, b);
    parent[a] = parent[b] = made++;
  }
}

// The tree from its top, without recursion: a chain of n rows would be n calls deep.
std::vector<std::int32_t> leaf_order(const std::vector<Merge>& merges, Index n_rows) {
  std::vector<std::int32_t> smallest(n_rows + std::ssize(merges));
  std::iota(smallest.begin(), smallest.begin() + n_rows, 0);
  for (std::size_t k = 0; k < merges.size(); ++k)
    smallest[n_rows + k] = std::min(smallest[merges[k].first], smallest[merges[k].second]);
  std::vector<std::int32_t> leaves, waiting;
  if (n_rows > 0) waiting.push_back(static_cast<std::int32_t>(std::ssize(smallest) - 1));
  while (!waiting.empty()) {
    const std::int32_t cluster = waiting.back();
    waiting.pop_back();
    if (cluster < n_rows) {
      leaves.push_back(cluster);
      continue;
    }
    const Merge& merge = merges[cluster - n_rows];
    const bool in_order = smallest[merge.first] < smallest[merge.second];
    waiting.push_back(in_order ? merge.second : merge.first);
    waiting.push_back(in_order ? merge.first : merge.second);
  }
  return leaves;
}

}  // namespace

Dendrogram average_linkage(std::vector<float> distances, Index n_rows) {
  if (n_rows < 0 || std::ssize(distances) != n_pairs(n_rows))
    throw InvalidInput(fmt::format("average linkage of {} rows: {} distances, expected {}", n_rows,
                                   distances.size(), n_rows < 0 ? 0 : n_pairs(n_rows)));
  if (!std::ranges::all_of(distances, [](float distance) { return std::isfinite(distance); }))
    throw InvalidInput(
        fmt::format("average linkage of {} rows: a distance is NaN or infinite, expected numbers", n_rows));
  HalfMatrix half(distances, n_rows);
  Dendrogram dendrogram{follow_chains(half, n_rows), {}};
  number_clusters(dendrogram.merges, n_rows);
  dendrogram.leaves = leaf_order(dendrogram.merges, n_rows);
  return dendrogram;
}

std::vector<float> cosine_distances(const MatrixView& rows) {
  const Index n_rows = rows.rows();
  const RowMatrixD unit = unit_rows(rows);
  const PackedRows packed(unit);
  std::vector<float> distances;
  distances.reserve(n_pairs(n_rows));
  RowMatrixD tile;
  for (Index first = 0; first < n_rows; first += kBlockRows) {
    const Index n = std::min(kBlockRows, n_rows - first);
    packed.multiply(unit.middleRows(first, n), tile, first);
    for (Index row = 0; row < n; ++row)
      for (Index other = row + 1; other < tile.cols(); ++other) {
        const double distance = 1 - tile(row, other);
        distances.push_back(
            std::isfinite(distance) ? std::clamp(static_cast<float>(distance), 0.0F, kFarthest) : kFarthest);
      }
  }
  return distances;
}

}  // namespace keyscope::analysis
