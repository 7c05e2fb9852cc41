#include "analysis/quick_cosines.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/per_processor.hpp"
#include "analysis/row_kernels.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Eight lanes, fixed in the source, so that sums are taken in the same order at every vector width.
constexpr Index kLanes = 8;
constexpr int kChains = 4;  // to hide the latency of the additions
constexpr Index kStepCols = kChains * kLanes;
constexpr Index kTileCols = 4 * kStepCols;  // of a row, whose products are summed in float32
constexpr Index kTileRows = 16;             // whose sum is float32
constexpr int kRowsAtOnce = 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes / 2 * sizeof(double))));

// Asks for what is read sixteen rows of 128 columns later: the processor's own look-ahead ends with the page,
// and sees too little of a loop that also computes. Addresses beyond the rows do no harm.
[[gnu::always_inline]] inline void ask_ahead(const float* at) {
  constexpr std::uintptr_t kBytesAhead = 8192;
  // By its number: a pointer beyond the rows would be none.
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(at) + kBytesAhead;
  __builtin_prefetch(reinterpret_cast<const void*>(ahead));  // NOLINT(performance-no-int-to-ptr)
}

[[gnu::always_inline]] inline void load(const float* from, Floats& lanes) {
  std::memcpy(&lanes, from, sizeof lanes);
}

[[gnu::always_inline]] inline void multiply_step(const float* x, const float* y, Floats (&sums)[kChains]) {
  for (int chain = 0; chain < kChains; ++chain) {
    Floats a;
    Floats b;
    load(x + chain * kLanes, a);
    load(y + chain * kLanes, b);
    sums[chain] += a * b;
  }
}

// Product of n numbers with n others, at most a tile, by lanes.
[[gnu::always_inline]] inline void multiply(const float* x, const float* y, Index n, Floats& lanes) {
  constexpr Index kLineFloats = 16;
  Floats sums[kChains] = {};
  Index j = 0;
  for (; j + kStepCols <= n; j += kStepCols) {
    for (Index line = 0; line < kStepCols; line += kLineFloats) ask_ahead(x + j + line);
    multiply_step(x + j, y + j, sums);
  }
  if (j < n) {  // filled up with zeros to a whole step
    float rest[2][kStepCols] = {};
    std::memcpy(rest[0], x + j, (n - j) * sizeof(float));
    std::memcpy(rest[1], y + j, (n - j) * sizeof(float));
    multiply_step(rest[0], rest[1], sums);
  }
  lanes = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Two halves of the lanes in float32; the four lanes that are left are float64.
[[gnu::always_inline]] inline void widen(const Floats& lanes, Doubles& wide) {
  wide = __builtin_convertvector(
      __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3) + __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7),
      Doubles);
}

// Adds each row's lanes to its sum. Four rows are transposed on the way.
[[gnu::always_inline]] inline void add_lanes(const Floats (&rows)[4], double* sums) {
  Doubles wide[4];
  for (int r = 0; r < 4; ++r) widen(rows[r], wide[r]);
  const auto neighbours = [](const Doubles& a, const Doubles& b, Doubles& both) {
    both = __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
  };
  Doubles first;
  Doubles last;
  neighbours(wide[0], wide[1], first);
  neighbours(wide[2], wide[3], last);
  Doubles all;
  std::memcpy(&all, sums, sizeof all);
  all += __builtin_shufflevector(first, last, 0, 1, 4, 5) + __builtin_shufflevector(first, last, 2, 3, 6, 7);
  std::memcpy(sums, &all, sizeof all);
}

// The same of one row, in the same order.
[[gnu::always_inline]] inline void add_lanes(const Floats (&row)[1], double* sum) {
  Doubles wide;
  widen(row[0], wide);
  *sum += (wide[0] + wide[1]) + (wide[2] + wide[3]);
}

// Products of some rows with others. Row after row, because memory is fastest when read in its order; only
// the ends of the sums are taken together.
template <int kRows>
[[gnu::always_inline]] inline void multiply_some(const float* rows, const float* others, Index n_cols,
                                                 Index stride, Index others_stride, double* products) {
  for (int r = 0; r < kRows; ++r) products[r] = 0;
  for (Index first = 0; first < n_cols; first += kTileCols) {
    const Index n = std::min(kTileCols, n_cols - first);
    Floats lanes[kRows];
    for (int r = 0; r < kRows; ++r)
      multiply(rows + r * stride + first, others + r * others_stride + first, n, lanes[r]);
    add_lanes(lanes, products);
  }
}

// Adds some rows to the sums of their columns, one after another.
template <int kRows>
[[gnu::always_inline]] inline void add_some(const float* rows, Index n_cols, Index stride,
                                            float* column_sums) {
  Index j = 0;
  for (; j + kLanes <= n_cols; j += kLanes) {
    Floats sum;
    load(column_sums + j, sum);
    for (int r = 0; r < kRows; ++r) {
      Floats x;
      load(rows + r * stride + j, x);
      sum += x;
    }
    std::memcpy(column_sums + j, &sum, sizeof sum);
  }
  for (; j < n_cols; ++j)
    for (int r = 0; r < kRows; ++r) column_sums[j] += rows[r * stride + j];
}

// Products of rows with a vector, each what it would be alone.
KEYSCOPE_PER_PROCESSOR
void multiply_rows(const float* rows, Index n_rows, Index n_cols, Index stride, const float* vector,
                   double* products) {
  Index i = 0;
  for (; i + kRowsAtOnce <= n_rows; i += kRowsAtOnce)
    multiply_some<kRowsAtOnce>(rows + i * stride, vector, n_cols, stride, 0, products + i);
  for (; i < n_rows; ++i) multiply_some<1>(rows + i * stride, vector, n_cols, stride, 0, products + i);
}

double inverse_norm(double square) { return square == 0 ? 0 : 1 / std::sqrt(square); }

// Sum of the rows, tile by tile, and the inverses of their norms.
//   tile_sum: zeros, as many as columns
KEYSCOPE_PER_PROCESSOR
void add_and_measure_rows(const float* rows, Index n_rows, Index n_cols, Index stride, float* tile_sum,
                          double* sum, double* inverse_norms) {
  for (Index first = 0; first < n_rows; first += kTileRows) {
    const Index n = std::min(kTileRows, n_rows - first);
    const float* tile = rows + first * stride;
    double* norms = inverse_norms + first;
    Index i = 0;
    for (; i + kRowsAtOnce <= n; i += kRowsAtOnce) {
      const float* some = tile + i * stride;
      multiply_some<kRowsAtOnce>(some, some, n_cols, stride, stride, norms + i);
      add_some<kRowsAtOnce>(some, n_cols, stride, tile_sum);
    }
    for (; i < n; ++i) {
      multiply_some<1>(tile + i * stride, tile + i * stride, n_cols, stride, stride, norms + i);
      add_some<1>(tile + i * stride, n_cols, stride, tile_sum);
    }
    for (i = 0; i < n; ++i) norms[i] = norms[i] == 0 ? 0 : 1 / __builtin_sqrt(norms[i]);
    for (Index j = 0; j < n_cols; ++j) {
      sum[j] += static_cast<double>(tile_sum[j]);
      tile_sum[j] = 0;
    }
  }
}

// Whether float32 held every product of such a row, and those with numbers up to 1: without overflow, and
// whatever fell below its range is nothing beside the sum.
[[gnu::always_inline]] inline bool is_safe(double inverse_norm) {
  return inverse_norm >= 0x1p-40 && inverse_norm <= 0x1p40;
}

KEYSCOPE_PER_PROCESSOR
bool are_safe(const double* inverse_norms, Index n) {
  Index n_safe = 0;  // counted, because compilers make vectors of sums and not of truths
  for (Index i = 0; i < n; ++i) n_safe += is_safe(inverse_norms[i]) ? 1 : 0;
  return n_safe == n;
}

KEYSCOPE_PER_PROCESSOR
void scale_products(const double* inverse_norms, Index n, double scale, double* products) {
  for (Index i = 0; i < n; ++i) products[i] *= inverse_norms[i] * scale;
}

// Numbers divided by the power of two that brings the largest magnitude to 1/2 … 1. What is not
// finite stays so.
struct Scaled {
  std::vector<float> values;
  int exponent = 0;

  template <typename Vector>
  explicit Scaled(const Vector& vector) : values(vector.size()) {
    const double largest = static_cast<double>(vector.cwiseAbs().maxCoeff());
    if (std::isfinite(largest)) std::frexp(largest, &exponent);
    for (Index j = 0; j < vector.size(); ++j)
      values[j] = static_cast<float>(std::ldexp(static_cast<double>(vector[j]), -exponent));
  }
};

// Of a row whose squares float32 cannot hold: exactly what the row gives at a harmless scale.
double inverse_norm_of(const MatrixView& row) {
  const Scaled scaled(row.row(0));
  double square = 0;
  multiply_rows(scaled.values.data(), 1, row.cols(), 0, scaled.values.data(), &square);
  return std::ldexp(inverse_norm(square), -scaled.exponent);
}

double product_of(const MatrixView& row, const float* vector) {
  const Scaled scaled(row.row(0));
  double product = 0;
  multiply_rows(scaled.values.data(), 1, row.cols(), 0, vector, &product);
  return std::ldexp(product, scaled.exponent);
}

}  // namespace

RowMoments row_moments(const MatrixView& rows) {
  const Index n_cols = rows.cols();
  RowMoments moments{VectorXd::Zero(n_cols), VectorXd(rows.rows())};
  if (rows.size() == 0) return {moments.mean, VectorXd::Zero(rows.rows())};
  std::vector<float> tile_sum(n_cols);
  add_and_measure_rows(rows.data(), rows.rows(), n_cols, rows.outerStride(), tile_sum.data(),
                       moments.mean.data(), moments.inverse_norms.data());
  if (!moments.mean.allFinite()) {  // the rows are not, or float32 could not hold the sum of a tile
    moments.mean.setZero();
    add_rows(rows, {moments.mean.data(), static_cast<std::size_t>(n_cols)});
  }
  moments.mean /= static_cast<double>(rows.rows());
  if (are_safe(moments.inverse_norms.data(), rows.rows())) return moments;
  for (Index i = 0; i < rows.rows(); ++i)
    if (!is_safe(moments.inverse_norms[i])) moments.inverse_norms[i] = inverse_norm_of(rows.row(i));
  return moments;
}

QuickAnchor::QuickAnchor(const VectorXd& anchor) : values(anchor.size()) {
  const double norm = anchor.norm();
  if (norm == 0) return;
  Scaled scaled(anchor);
  scale = std::isfinite(norm) ? std::ldexp(1.0, scaled.exponent) / norm
                              : std::numeric_limits<double>::quiet_NaN();
  values = std::move(scaled.values);
}

void quick_cosines(const MatrixView& rows, const VectorXd& inverse_norms, const QuickAnchor& anchor,
                   std::span<double> cosines) {
  if (anchor.scale == 0 || rows.cols() == 0) return std::fill(cosines.begin(), cosines.end(), 0.0);
  // From the last rows to the first: those that row_moments read last are still in the cache.
  constexpr Index kRows = 256;
  for (Index end = rows.rows(); end > 0; end -= std::min(end, kRows)) {
    const Index first = end - std::min(end, kRows);
    double* products = cosines.data() + first;
    multiply_rows(rows.data() + first * rows.outerStride(), end - first, rows.cols(), rows.outerStride(),
                  anchor.values.data(), products);
    const double* norms = inverse_norms.data() + first;
    if (!are_safe(norms, end - first))
      for (Index i = first; i < end; ++i)
        if (!is_safe(inverse_norms[i])) products[i - first] = product_of(rows.row(i), anchor.values.data());
    scale_products(norms, end - first, anchor.scale, products);
  }
}

}  // namespace keyscope::analysis
