#include "app/figures/life_grid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyscope::figures {
namespace {

using Eigen::Index;

// Sums over columns of blocks, filled by spans of blocks: the whole columns of a span as a step up and a step
// down, its ends as what they cover.
class SpanSums {
 public:
  SpanSums(Index rows, Index columns, std::int64_t width)
      : width_(width), ends_(RowMatrixD::Zero(rows, columns)), steps_(RowMatrixD::Zero(rows, columns + 1)) {}

  void add(Index row, std::int64_t first, std::int64_t last, double weight) {
    const Index from = first / width_, to = last / width_;
    if (from == to) {
      ends_(row, from) += weight * static_cast<double>(last - first + 1);
      return;
    }
    ends_(row, from) += weight * static_cast<double>((from + 1) * width_ - first);
    ends_(row, to) += weight * static_cast<double>(last - to * width_ + 1);
    steps_(row, from + 1) += weight * static_cast<double>(width_);
    steps_(row, to) -= weight * static_cast<double>(width_);
  }

  RowMatrixD finish() const {
    RowMatrixD sums = ends_;
    for (Index row = 0; row < sums.rows(); ++row) {
      double level = 0;
      for (Index column = 0; column < sums.cols(); ++column)
        sums(row, column) += level += steps_(row, column);
    }
    return sums;
  }

 private:
  std::int64_t width_;
  RowMatrixD ends_, steps_;
};

std::int64_t group_size(std::int64_t n, std::int64_t most) {
  return std::max<std::int64_t>(1, (n + most - 1) / most);
}

// Sums of counts are whole numbers, so that an empty cell is exactly 0.
RowMatrixF ratio(const RowMatrixD& sum, const RowMatrixD& count) {
  RowMatrixF result(sum.rows(), sum.cols());
  for (Index i = 0; i < sum.size(); ++i)
    result.data()[i] = count.data()[i] > 0 ? static_cast<float>(sum.data()[i] / count.data()[i])
                                           : std::numeric_limits<float>::quiet_NaN();
  return result;
}

}  // namespace

LifeGrid grid_lives(std::span<const Life> lives, std::int64_t n_blocks, std::int64_t max_size) {
  const auto n = static_cast<std::int64_t>(lives.size());
  LifeGrid grid{group_size(n, max_size), group_size(n_blocks, max_size), {}, {}};
  const Index rows = (n + grid.tokens_per_row - 1) / grid.tokens_per_row;
  const Index columns = (n_blocks + grid.blocks_per_column - 1) / grid.blocks_per_column;
  const SpanSums empty(rows, columns, grid.blocks_per_column);
  SpanSums seen = empty, cached = empty, valued = empty, values = empty;
  for (std::int64_t i = 0; i < n; ++i) {
    const Life& life = lives[static_cast<std::size_t>(i)];
    const Index row = i / grid.tokens_per_row;
    seen.add(row, life.first, n_blocks - 1, 1);
    cached.add(row, life.first, life.last, 1);
    if (std::isnan(life.value)) continue;
    valued.add(row, life.first, life.last, 1);
    values.add(row, life.first, life.last, life.value);
  }
  grid.share = ratio(cached.finish(), seen.finish());
  grid.value = ratio(values.finish(), valued.finish());
  return grid;
}

}  // namespace keyscope::figures
