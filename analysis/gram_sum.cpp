#include "analysis/gram_sum.hpp"

#include <algorithm>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {
namespace {

using Index = Eigen::Index;

constexpr Index kLanes = 8;
constexpr Index kStripCols = 2 * kLanes;
constexpr Index kTileRows = 128;  // two strips of them, 32 kB, stay in the first cache
constexpr Index kColsAtOnce = 4;  // with a strip of two vectors: eight running sums, which fit the registers
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

// Adds Σ x_i x_j over the rows of a tile, for four columns i of one strip against the sixteen of another.
//   left: the first of the four, in its strip; sum: (4, 16) within rows spaced by `stride`
KEYSCOPE_PER_PROCESSOR
void add_block(const double* left, const double* strip, Index n_rows, Index stride, double* sum) {
  Doubles sums[kColsAtOnce][2] = {};
  for (Index r = 0; r < n_rows; ++r) {
    Doubles low;
    Doubles high;
    std::memcpy(&low, strip + r * kStripCols, sizeof low);
    std::memcpy(&high, strip + r * kStripCols + kLanes, sizeof high);
    for (Index i = 0; i < kColsAtOnce; ++i) {
      sums[i][0] += low * left[r * kStripCols + i];
      sums[i][1] += high * left[r * kStripCols + i];
    }
  }
  for (Index i = 0; i < kColsAtOnce; ++i)
    for (Index half = 0; half < 2; ++half)
      for (Index lane = 0; lane < kLanes; ++lane)
        sum[i * stride + half * kLanes + lane] += sums[i][half][lane];
}

// Lays a strip's columns of a tile out row after row, as (x - origin) · factor.
//   rows: the tile's first row at the strip's first column; n_cols: 1 to 16
KEYSCOPE_PER_PROCESSOR
void pack_strip(const float* rows, Index n_rows, Index n_cols, Index stride, const double* origin,
                const double* factors, double* strip) {
  if (n_cols == kStripCols) {  // of a fixed length, which compilers make vectors of
    for (Index r = 0; r < n_rows; ++r)
      for (Index c = 0; c < kStripCols; ++c)
        strip[r * kStripCols + c] = (static_cast<double>(rows[r * stride + c]) - origin[c]) * factors[r];
    return;
  }
  for (Index r = 0; r < n_rows; ++r)
    for (Index c = 0; c < n_cols; ++c)
      strip[r * kStripCols + c] = (static_cast<double>(rows[r * stride + c]) - origin[c]) * factors[r];
}

Index padded_columns(Index n_cols) { return (n_cols + kStripCols - 1) / kStripCols * kStripCols; }

}  // namespace

GramSum::GramSum(Index n_cols)
    : n_cols_(n_cols),
      tile_(RowMatrixD::Zero(padded_columns(n_cols) / kStripCols, kTileRows * kStripCols)),
      sum_(RowMatrixD::Zero(padded_columns(n_cols), padded_columns(n_cols))) {}

void GramSum::add(const MatrixView& rows, const Eigen::VectorXd& origin, const Eigen::VectorXd& factors) {
  const auto strip = [&](Index j) { return tile_.row(j / kStripCols).data(); };
  for (Index first = 0; first < rows.rows(); first += kTileRows) {
    const Index n_rows = std::min(kTileRows, rows.rows() - first);
    const float* tile = rows.data() + first * rows.outerStride();
    for (Index j = 0; j < n_cols_; j += kStripCols)
      pack_strip(tile + j, n_rows, std::min(kStripCols, n_cols_ - j), rows.outerStride(), origin.data() + j,
                 factors.data() + first, strip(j));
    for (Index i = 0; i < n_cols_; i += kColsAtOnce)
      for (Index j = i / kStripCols * kStripCols; j < n_cols_; j += kStripCols)
        add_block(strip(i) + i % kStripCols, strip(j), n_rows, sum_.cols(), &sum_(i, j));
  }
}

void GramSum::add_around(const MatrixView& rows, const Eigen::VectorXd& origin) {
  add(rows, origin, Eigen::VectorXd::Ones(rows.rows()));
}

void GramSum::add_scaled(const MatrixView& rows, const Eigen::VectorXd& factors) {
  add(rows, Eigen::VectorXd::Zero(n_cols_), factors);
}

Eigen::MatrixXd GramSum::matrix() const {
  Eigen::MatrixXd whole = sum_.topLeftCorner(n_cols_, n_cols_);
  whole.triangularView<Eigen::StrictlyLower>() = whole.transpose();
  return whole;
}

}  // namespace keyscope::analysis
