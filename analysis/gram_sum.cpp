#include "analysis/gram_sum.hpp"

#include <algorithm>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {
namespace {

using Index = Eigen::Index;

constexpr Index kLanes = 8;
constexpr Index kStripCols = 2 * kLanes;
constexpr Index kColsAtOnce = 4;  // with a strip of two vectors: eight running sums, which fit the registers
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

// Adds Σ x_i x_j over the rows of a tile, for four columns i against a strip of sixteen columns j.
//   left, strip: the tile's first row at column i and j; sum: (4, 16) within rows spaced by `stride` too
KEYSCOPE_PER_PROCESSOR
void add_block(const double* left, const double* strip, Index n_rows, Index stride, double* sum) {
  Doubles sums[kColsAtOnce][2] = {};
  for (Index r = 0; r < n_rows; ++r) {
    Doubles low;
    Doubles high;
    std::memcpy(&low, strip + r * stride, sizeof low);
    std::memcpy(&high, strip + r * stride + kLanes, sizeof high);
    for (Index i = 0; i < kColsAtOnce; ++i) {
      sums[i][0] += low * left[r * stride + i];
      sums[i][1] += high * left[r * stride + i];
    }
  }
  for (Index i = 0; i < kColsAtOnce; ++i)
    for (Index half = 0; half < 2; ++half)
      for (Index lane = 0; lane < kLanes; ++lane)
        sum[i * stride + half * kLanes + lane] += sums[i][half][lane];
}

Index padded_columns(Index n_cols) { return (n_cols + kStripCols - 1) / kStripCols * kStripCols; }

}  // namespace

GramSum::GramSum(Index n_cols)
    : n_cols_(n_cols), sum_(RowMatrixD::Zero(padded_columns(n_cols), padded_columns(n_cols))) {}

void GramSum::add_padded(Index n_rows) {
  const Index stride = sum_.cols();
  for (Index i = 0; i < n_cols_; i += kColsAtOnce)
    for (Index j = i / kStripCols * kStripCols; j < n_cols_; j += kStripCols)
      add_block(padded_.data() + i, padded_.data() + j, n_rows, stride, &sum_(i, j));
}

void GramSum::add(const RowMatrixD& tile) {
  if (padded_.rows() < tile.rows()) padded_.setZero(tile.rows(), sum_.cols());
  padded_.topLeftCorner(tile.rows(), n_cols_) = tile;
  add_padded(tile.rows());
}

void GramSum::add_around(const MatrixView& rows, const Eigen::VectorXd& origin) {
  const Index n_tile = std::min(kGramTileRows, rows.rows());
  if (padded_.rows() < n_tile) padded_.setZero(n_tile, sum_.cols());
  for (Index first = 0; first < rows.rows(); first += n_tile) {
    const Index n = std::min(n_tile, rows.rows() - first);
    padded_.topLeftCorner(n, n_cols_) =
        rows.middleRows(first, n).cast<double>().rowwise() - origin.transpose();
    add_padded(n);
  }
}

Eigen::MatrixXd GramSum::matrix() const {
  Eigen::MatrixXd whole = sum_.topLeftCorner(n_cols_, n_cols_);
  whole.triangularView<Eigen::StrictlyLower>() = whole.transpose();
  return whole;
}

}  // namespace keyscope::analysis
