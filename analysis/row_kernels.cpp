#include "analysis/row_kernels.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {

namespace {

using Index = Eigen::Index;

constexpr Index kChains = 4;  // of sums, to hide the latency of the additions
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

// Divides rather than multiplies by inverses: such a product could be fused with the sum, and rounded
// otherwise than that of the opposite row.
KEYSCOPE_PER_PROCESSOR
void add_strided_divided_rows(const float* rows, Index n_rows, Index n_cols, Index stride,
                              const double* divisors, double* sum) {
  Index i = 0;
  for (; i + 4 <= n_rows; i += 4) {
    const float* a = rows + i * stride;
    const float* b = a + stride;
    const float* c = b + stride;
    const float* d = c + stride;
    for (Index j = 0; j < n_cols; ++j)
      sum[j] += (static_cast<double>(a[j]) / divisors[i] + static_cast<double>(b[j]) / divisors[i + 1]) +
                (static_cast<double>(c[j]) / divisors[i + 2] + static_cast<double>(d[j]) / divisors[i + 3]);
  }
  for (; i < n_rows; ++i)
    for (Index j = 0; j < n_cols; ++j) sum[j] += static_cast<double>(rows[i * stride + j]) / divisors[i];
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

void add_divided_rows(const MatrixView& rows, std::span<const double> divisors, std::span<double> sum) {
  add_strided_divided_rows(rows.data(), rows.rows(), rows.cols(), rows.outerStride(), divisors.data(),
                           sum.data());
}

void row_products(const MatrixView& rows, std::span<const double> vector, std::span<double> products,
                  std::span<double> squared_norms) {
  multiply_strided_rows(rows.data(), rows.rows(), rows.cols(), rows.outerStride(), vector.data(),
                        products.data(), squared_norms.data());
}

namespace {

constexpr Index kStripRows = 16;
constexpr Index kVectorsAtOnce = 8;

// How many vectors, or columns, are multiplied at once: each has two running sums, and all of them must fit
// the registers of this width.
template <int kBytes>
constexpr Index kAtOnce = kBytes == 64 ? 8 : 4;

// Products of eight vectors with the rows of one strip: (8, 16) within rows spaced by `stride`.
template <int kBytes>
[[gnu::always_inline]] inline void multiply_strip_by(const double* const* vectors, const double* strip,
                                                     Index n_cols, double* products, Index stride) {
  using Doubles = typename VectorOf<kBytes>::Doubles;
  constexpr Index kLanes = kBytes / static_cast<int>(sizeof(double));
  constexpr Index kSome = kAtOnce<kBytes>;
  for (Index some = 0; some < kVectorsAtOnce; some += kSome)
    for (Index first = 0; first < kStripRows; first += 2 * kLanes) {
      Doubles sums[kSome][2] = {};
      for (Index c = 0; c < n_cols; ++c) {
        Doubles low;
        Doubles high;
        std::memcpy(&low, strip + c * kStripRows + first, sizeof low);
        std::memcpy(&high, strip + c * kStripRows + first + kLanes, sizeof high);
        for (Index v = 0; v < kSome; ++v) {
          sums[v][0] += low * vectors[some + v][c];
          sums[v][1] += high * vectors[some + v][c];
        }
      }
      for (Index v = 0; v < kSome; ++v)
        std::memcpy(products + (some + v) * stride + first, sums[v], sizeof sums[v]);
    }
}
KEYSCOPE_BY_WIDTH(multiply_strip,
                  (const double* const* vectors, const double* strip, Index n_cols, double* products,
                   Index stride),
                  (vectors, strip, n_cols, products, stride))

const float* row_at(const MatrixView& rows, Index i) {
  assert(i >= 0 && i < rows.rows());
  return rows.data() + i * rows.outerStride();
}

}  // namespace

PackedRows::PackedRows(Index n_rows, Index n_cols)
    : n_rows_(n_rows),
      n_cols_(n_cols),
      strips_((n_rows + kStripRows - 1) / kStripRows * kStripRows * n_cols) {}

PackedRows::PackedRows(const RowMatrixD& rows) : PackedRows(rows.rows(), rows.cols()) {
  for (Index i = 0; i < n_rows_; ++i) {
    double* strip = strips_.data() + i / kStripRows * kStripRows * n_cols_;
    for (Index c = 0; c < n_cols_; ++c) strip[c * kStripRows + i % kStripRows] = rows(i, c);
  }
}

PackedRows PackedRows::of_rows(const MatrixView& rows, std::span<const std::int32_t> which) {
  PackedRows packed(std::ssize(which), rows.cols());
  for (Index first = 0; first < packed.n_rows_; first += kStripRows) {
    const Index n = std::min(kStripRows, packed.n_rows_ - first);
    const float* row[kStripRows];
    for (Index r = 0; r < n; ++r) row[r] = row_at(rows, which[first + r]);
    double* strip = packed.strips_.data() + first * packed.n_cols_;
    for (Index c = 0; c < packed.n_cols_; ++c)
      for (Index r = 0; r < n; ++r) strip[c * kStripRows + r] = static_cast<double>(row[r][c]);
  }
  return packed;
}

PackedRows PackedRows::of_columns(const MatrixView& rows, std::span<const std::int32_t> which) {
  PackedRows packed(rows.cols(), std::ssize(which));
  for (Index c = 0; c < packed.n_cols_; ++c) {
    const float* row = row_at(rows, which[c]);
    for (Index first = 0; first < packed.n_rows_; first += kStripRows) {
      double* to = packed.strips_.data() + first * packed.n_cols_ + c * kStripRows;
      for (Index r = 0; r < std::min(kStripRows, packed.n_rows_ - first); ++r)
        to[r] = static_cast<double>(row[first + r]);
    }
  }
  return packed;
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

// Adds Σ x_i x_j over the rows of a tile, for the columns i of one strip against those of another.
//   sum: (16, 16) within rows spaced by `stride`; of a strip with itself only what reaches the upper triangle
template <int kBytes>
[[gnu::always_inline]] inline void add_block_by(const double* left, const double* right, Index n_rows,
                                                double* sum, Index stride) {
  using Doubles = typename VectorOf<kBytes>::Doubles;
  constexpr Index kLanes = kBytes / static_cast<int>(sizeof(double));
  constexpr Index kSome = kAtOnce<kBytes>;
  for (Index some = 0; some < kStripCols; some += kSome) {
    const Index needed = left == right ? some / (2 * kLanes) * 2 * kLanes : 0;
    for (Index first = needed; first < kStripCols; first += 2 * kLanes) {
      Doubles sums[kSome][2] = {};
      for (Index r = 0; r < n_rows; ++r) {
        Doubles low;
        Doubles high;
        std::memcpy(&low, right + r * kStripCols + first, sizeof low);
        std::memcpy(&high, right + r * kStripCols + first + kLanes, sizeof high);
        for (Index i = 0; i < kSome; ++i) {
          const double factor = left[r * kStripCols + some + i];
          sums[i][0] += low * factor;
          sums[i][1] += high * factor;
        }
      }
      for (Index i = 0; i < kSome; ++i)
        for (Index half = 0; half < 2; ++half) {
          double* at = sum + (some + i) * stride + first + half * kLanes;
          Doubles total;
          std::memcpy(&total, at, sizeof total);
          total += sums[i][half];
          std::memcpy(at, &total, sizeof total);
        }
    }
  }
}
KEYSCOPE_BY_WIDTH(add_block,
                  (const double* left, const double* right, Index n_rows, double* sum, Index stride),
                  (left, right, n_rows, sum, stride))

// Lays the rows of a tile out in strips, one of kTileRows rows after another, as (x - origin) · factor. In
// the order in which the rows lie in memory: they come from there.
KEYSCOPE_PER_PROCESSOR
void pack_rows(const float* rows, Index n_rows, Index n_cols, Index stride, const double* origin,
               const double* factors, double* strips) {
  for (Index r = 0; r < n_rows; ++r) {
    const float* row = rows + r * stride;
    const double factor = factors[r];
    Index j = 0;
    for (; j + kStripCols <= n_cols; j += kStripCols) {
      double* strip = strips + (j * kTileRows + r * kStripCols);
      for (Index c = 0; c < kStripCols; ++c)
        strip[c] = (static_cast<double>(row[j + c]) - origin[j + c]) * factor;
    }
    if (j == n_cols) continue;
    double* strip = strips + (j * kTileRows + r * kStripCols);
    for (Index c = 0; j + c < n_cols; ++c)
      strip[c] = (static_cast<double>(row[j + c]) - origin[j + c]) * factor;
  }
}

// Adds the rows of a strip of a tile, in four chains, to hide the latency of the additions.
KEYSCOPE_PER_PROCESSOR
void add_strip_rows(const double* strip, Index n_rows, double* sum) {
  double sums[kChains][kStripCols] = {};
  Index r = 0;
  for (; r + kChains <= n_rows; r += kChains)
    for (Index chain = 0; chain < kChains; ++chain)
      for (Index c = 0; c < kStripCols; ++c) sums[chain][c] += strip[(r + chain) * kStripCols + c];
  for (; r < n_rows; ++r)
    for (Index c = 0; c < kStripCols; ++c) sums[0][c] += strip[r * kStripCols + c];
  for (Index c = 0; c < kStripCols; ++c) sum[c] += (sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]);
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
    for (Index i = 0; i < n_cols_; i += kStripCols)
      for (Index j = i; j < n_cols_; j += kStripCols)
        add_block(strip(i), strip(j), n_rows, &sum_(i, j), sum_.cols());
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
