#include "analysis/row_kernels.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {

namespace {

using Index = Eigen::Index;

// Sums of four lanes are taken in four chains, to hide the latency of the additions.
constexpr Index kChains = 4;
using FourFloats = float __attribute__((vector_size(kFour * sizeof(float))));

KEYSCOPE_PER_PROCESSOR
void add_strided_rows(const float* rows, Index n_rows, Index n_cols, Index stride, double* sum) {
  Index i = 0;
  for (; i + 4 <= n_rows; i += 4) {  // four rows a visit: `sum` is loaded and stored a quarter as often
    const float* a = rows + i * stride;
    const float* b = a + stride;
    const float* c = b + stride;
    const float* d = c + stride;
    for (Index j = 0; j < n_cols; ++j)
      sum[j] += (static_cast<double>(a[j]) + static_cast<double>(b[j])) +
                (static_cast<double>(c[j]) + static_cast<double>(d[j]));
  }
  for (; i < n_rows; ++i)
    for (Index j = 0; j < n_cols; ++j) sum[j] += static_cast<double>(rows[i * stride + j]);
}

KEYSCOPE_PER_PROCESSOR
void multiply_strided_rows(const float* rows, Index n_rows, Index n_cols, Index stride, const double* vector,
                           double* products, double* squared_norms) {
  for (Index i = 0; i < n_rows; ++i) {
    const float* row = rows + i * stride;
    FourDoubles product[kChains] = {};
    FourDoubles square[kChains] = {};
    Index j = 0;
    for (; j + kChains * kFour <= n_cols; j += kChains * kFour) {
      for (Index chain = 0; chain < kChains; ++chain) {
        FourFloats x_narrow;
        FourDoubles v;
        std::memcpy(&x_narrow, row + j + chain * kFour, sizeof x_narrow);
        std::memcpy(&v, vector + j + chain * kFour, sizeof v);
        const FourDoubles x = __builtin_convertvector(x_narrow, FourDoubles);
        product[chain] += x * v;
        square[chain] += x * x;
      }
    }
    product[0] = (product[0] + product[1]) + (product[2] + product[3]);
    square[0] = (square[0] + square[1]) + (square[2] + square[3]);
    double product_sum = (product[0][0] + product[0][1]) + (product[0][2] + product[0][3]);
    double square_sum = (square[0][0] + square[0][1]) + (square[0][2] + square[0][3]);
    for (; j < n_cols; ++j) {
      const double x = static_cast<double>(row[j]);
      product_sum += x * vector[j];
      square_sum += x * x;
    }
    products[i] = product_sum;
    squared_norms[i] = square_sum;
  }
}

}  // namespace

void add_rows(const MatrixView& rows, std::span<double> sum) {
  add_strided_rows(rows.data(), rows.rows(), rows.cols(), rows.outerStride(), sum.data());
}

void row_products(const MatrixView& rows, std::span<const double> vector, std::span<double> products,
                  std::span<double> squared_norms) {
  multiply_strided_rows(rows.data(), rows.rows(), rows.cols(), rows.outerStride(), vector.data(),
                        products.data(), squared_norms.data());
}

namespace {

constexpr Index kStripRows = 16;
constexpr Index kVectorsAtOnce =
    4;  // with two vectors of a strip: eight running sums, which fit the registers

// Products of four vectors with the rows of one strip: (4, 16) within rows spaced by `stride`.
template <int kBytes>
[[gnu::always_inline]] inline void multiply_strip_by(const double* const* vectors, const double* strip,
                                                     Index n_cols, double* products, Index stride) {
  using Doubles = typename VectorOf<kBytes>::Doubles;
  constexpr Index kLanes = kBytes / static_cast<int>(sizeof(double));
  for (Index first = 0; first < kStripRows; first += 2 * kLanes) {
    Doubles sums[kVectorsAtOnce][2] = {};
    for (Index c = 0; c < n_cols; ++c) {
      Doubles low;
      Doubles high;
      std::memcpy(&low, strip + c * kStripRows + first, sizeof low);
      std::memcpy(&high, strip + c * kStripRows + first + kLanes, sizeof high);
      for (Index v = 0; v < kVectorsAtOnce; ++v) {
        sums[v][0] += low * vectors[v][c];
        sums[v][1] += high * vectors[v][c];
      }
    }
    for (Index v = 0; v < kVectorsAtOnce; ++v)
      std::memcpy(products + v * stride + first, sums[v], sizeof sums[v]);
  }
}
KEYSCOPE_BY_WIDTH(multiply_strip,
                  (const double* const* vectors, const double* strip, Index n_cols, double* products,
                   Index stride),
                  (vectors, strip, n_cols, products, stride))

}  // namespace

PackedRows::PackedRows(const RowMatrixD& rows)
    : n_rows_(rows.rows()),
      n_cols_(rows.cols()),
      strips_((rows.rows() + kStripRows - 1) / kStripRows * kStripRows * rows.cols()) {
  for (Index i = 0; i < n_rows_; ++i) {
    double* strip = strips_.data() + i / kStripRows * kStripRows * n_cols_;
    for (Index c = 0; c < n_cols_; ++c) strip[c * kStripRows + i % kStripRows] = rows(i, c);
  }
}

void PackedRows::multiply(const Eigen::Ref<const RowMatrixD>& vectors, RowMatrixD& products, Index first_row,
                          Index end_row) const {
  if (end_row < 0) end_row = n_rows_;
  assert(first_row % kStripRows == 0 && end_row <= n_rows_);
  products.resize(vectors.rows(), end_row - first_row);
  double tile[kVectorsAtOnce * kStripRows];
  for (Index row = first_row; row < end_row; row += kStripRows) {
    const double* strip = strips_.data() + row * n_cols_;
    const auto n = static_cast<std::size_t>(std::min(kStripRows, end_row - row));
    for (Index first = 0; first < vectors.rows(); first += kVectorsAtOnce) {
      const Index n_vectors = std::min(kVectorsAtOnce, vectors.rows() - first);
      const double* pointers[kVectorsAtOnce];
      for (Index v = 0; v < kVectorsAtOnce; ++v)
        pointers[v] = vectors.row(first + std::min(v, n_vectors - 1)).data();
      if (n_vectors == kVectorsAtOnce && n == kStripRows) {
        multiply_strip(pointers, strip, n_cols_, &products(first, row - first_row), products.cols());
        continue;
      }
      multiply_strip(pointers, strip, n_cols_, tile, kStripRows);
      for (Index v = 0; v < n_vectors; ++v)
        std::memcpy(&products(first + v, row - first_row), tile + v * kStripRows, n * sizeof(double));
    }
  }
}

namespace {

constexpr Index kStripCols = 16;
constexpr Index kTileRows = 128;  // two strips of them, 32 kB, stay in the first cache
constexpr Index kColsAtOnce = 4;  // with two vectors of a strip: eight running sums, which fit the registers
constexpr Index kQuarter = kStripCols / 4;
using FewFloats = float __attribute__((vector_size(kQuarter * sizeof(float))));
using FewDoubles = double __attribute__((vector_size(kQuarter * sizeof(double))));

// Adds Σ x_i x_j over the rows of a tile, for four columns i of one strip against the sixteen of another.
//   left: the first of the four, in its strip; sum: (4, 16) within rows spaced by `stride`
//   needed: the first of the sixteen that is; those before it may be left out
template <int kBytes>
[[gnu::always_inline]] inline void add_block_by(const double* left, const double* strip, Index n_rows,
                                                Index stride, double* sum, Index needed) {
  using Doubles = typename VectorOf<kBytes>::Doubles;
  constexpr Index kLanes = kBytes / static_cast<int>(sizeof(double));
  for (Index first = needed / (2 * kLanes) * 2 * kLanes; first < kStripCols; first += 2 * kLanes) {
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
                  (const double* left, const double* strip, Index n_rows, Index stride, double* sum,
                   Index needed),
                  (left, strip, n_rows, stride, sum, needed))

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

// Adds the rows of a strip of a tile.
KEYSCOPE_PER_PROCESSOR
void add_strip_rows(const double* strip, Index n_rows, double* sum) {
  FourDoubles sums[kStripCols / kFour];
  std::memcpy(sums, sum, sizeof sums);
  for (Index r = 0; r < n_rows; ++r)
    for (Index part = 0; part < kStripCols / kFour; ++part) {
      FourDoubles x;
      std::memcpy(&x, strip + r * kStripCols + part * kFour, sizeof x);
      sums[part] += x;
    }
  std::memcpy(sum, sums, sizeof sums);
}

Index padded_columns(Index n_cols) { return (n_cols + kStripCols - 1) / kStripCols * kStripCols; }

}  // namespace

GramSum::GramSum(Index n_cols)
    : n_cols_(n_cols),
      tile_(RowMatrixD::Zero(padded_columns(n_cols) / kStripCols, kTileRows * kStripCols)),
      row_sum_(Eigen::VectorXd::Zero(padded_columns(n_cols))),
      sum_(RowMatrixD::Zero(padded_columns(n_cols), padded_columns(n_cols))) {}

void GramSum::add(const MatrixView& rows, const Eigen::VectorXd& origin, const Eigen::VectorXd& factors,
                  bool sum_rows) {
  const auto strip = [&](Index j) { return tile_.row(j / kStripCols).data(); };
  for (Index first = 0; first < rows.rows(); first += kTileRows) {
    const Index n_rows = std::min(kTileRows, rows.rows() - first);
    pack_rows(rows.data() + first * rows.outerStride(), n_rows, n_cols_, rows.outerStride(), origin.data(),
              factors.data() + first, tile_.data());
    if (sum_rows)
      for (Index j = 0; j < n_cols_; j += kStripCols) add_strip_rows(strip(j), n_rows, &row_sum_[j]);
    for (Index i = 0; i < n_cols_; i += kColsAtOnce)
      for (Index j = i / kStripCols * kStripCols; j < n_cols_; j += kStripCols)
        add_block(strip(i) + i % kStripCols, strip(j), n_rows, sum_.cols(), &sum_(i, j),
                  std::max<Index>(i - j, 0));
  }
}

void GramSum::add_around(const MatrixView& rows, const Eigen::VectorXd& origin) {
  add(rows, origin, Eigen::VectorXd::Ones(rows.rows()), true);
}

void GramSum::add_scaled(const MatrixView& rows, const Eigen::VectorXd& factors) {
  add(rows, Eigen::VectorXd::Zero(n_cols_), factors, false);
}

Eigen::MatrixXd GramSum::matrix() const {
  Eigen::MatrixXd whole = sum_.topLeftCorner(n_cols_, n_cols_);
  whole.triangularView<Eigen::StrictlyLower>() = whole.transpose();
  return whole;
}

}  // namespace keyscope::analysis
