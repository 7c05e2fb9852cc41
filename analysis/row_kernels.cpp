#include "analysis/row_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {
namespace {

using Index = Eigen::Index;

constexpr Index kStripCols = 16;
constexpr Index kTileRows = 128;  // two strips of them, 32 kB, stay in the first cache
constexpr Index kColsAtOnce = 4;  // with two vectors of a strip: eight running sums, which fit the registers
constexpr Index kQuarter = kStripCols / 4;
using FewFloats = float __attribute__((vector_size(kQuarter * sizeof(float))));
using FewDoubles = double __attribute__((vector_size(kQuarter * sizeof(double))));

// Adds Σ x_i x_j over the rows of a tile, for four columns i of one strip against the sixteen of another.
//   left: the first of the four, in its strip; sum: (4, 16) within rows spaced by `stride`
template <int kBytes>
[[gnu::always_inline]] inline void add_block_by(const double* left, const double* strip, Index n_rows,
                                                Index stride, double* sum) {
  using Doubles = typename VectorOf<kBytes>::Doubles;
  constexpr Index kLanes = kBytes / static_cast<int>(sizeof(double));
  for (Index first = 0; first < kStripCols; first += 2 * kLanes) {
    Doubles sums[kColsAtOnce][2] = {};
    for (Index r = 0; r < n_rows; ++r) {
      Doubles low;
      Doubles high;
      std::memcpy(&low, strip + r * kStripCols + first, sizeof low);
      std::memcpy(&high, strip + r * kStripCols + first + kLanes, sizeof high);
      for (Index i = 0; i < kColsAtOnce; ++i) {
        sums[i][0] += low * left[r * kStripCols + i];
        sums[i][1] += high * left[r * kStripCols + i];
      }
    }
    for (Index i = 0; i < kColsAtOnce; ++i)
      for (Index half = 0; half < 2; ++half) {
        double* at = sum + i * stride + first + half * kLanes;
        Doubles total;
        std::memcpy(&total, at, sizeof total);
        total += sums[i][half];
        std::memcpy(at, &total, sizeof total);
      }
  }
}
KEYSCOPE_BY_WIDTH(add_block,
                  (const double* left, const double* strip, Index n_rows, Index stride, double* sum),
                  (left, strip, n_rows, stride, sum))

// Lays the rows of a tile out in strips, one of kTileRows rows after another, as (x - origin) · factor. In
// the order in which the rows lie in memory: they come from there.
KEYSCOPE_PER_PROCESSOR
void pack_rows(const float* rows, Index n_rows, Index n_cols, Index stride, const double* origin,
               const double* factors, double* strips) {
  for (Index r = 0; r < n_rows; ++r) {
    const float* row = rows + r * stride;
    const auto place = [&](Index j) {
      return strips + (j / kStripCols * kTileRows + r) * kStripCols + j % kStripCols;
    };
    Index j = 0;
    for (; j + kQuarter <= n_cols; j += kQuarter) {
      FewFloats narrow;
      FewDoubles x;
      std::memcpy(&narrow, row + j, sizeof narrow);
      std::memcpy(&x, origin + j, sizeof x);
      x = (__builtin_convertvector(narrow, FewDoubles) - x) * factors[r];
      std::memcpy(place(j), &x, sizeof x);
    }
    for (; j < n_cols; ++j) *place(j) = (static_cast<double>(row[j]) - origin[j]) * factors[r];
  }
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
    pack_rows(rows.data() + first * rows.outerStride(), n_rows, n_cols_, rows.outerStride(), origin.data(),
              factors.data() + first, tile_.data());
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
