#include "analysis/quick_cosines.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "analysis/per_processor.hpp"
#include "analysis/row_products.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Sixteen lanes, fixed in the source, so that sums are taken in the same order at every vector width.
constexpr Index kLanes = 16;
constexpr Index kStepCols = 2 * kLanes;     // two chains, to hide the latency of the additions
constexpr Index kTileCols = 4 * kStepCols;  // of a row, whose products are summed in float32: eight a lane
constexpr Index kTileRows = 16;             // whose sum is float32
constexpr int kRowsAtOnce = 4;
constexpr Index kQuarter = kLanes / 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using FewFloats = float __attribute__((vector_size(kQuarter * sizeof(float))));
using Doubles = double __attribute__((vector_size(kQuarter * sizeof(double))));

// Asks for what is read four rows of 128 columns later: the processor's own look-ahead ends with the page,
// and sees too little of a loop that also computes. Addresses beyond the rows do no harm.
[[gnu::always_inline]] inline void ask_ahead(const float* at) {
  constexpr std::uintptr_t kBytesAhead = 2048;
  // By its number: a pointer beyond the rows would be none.
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(at) + kBytesAhead;
  __builtin_prefetch(reinterpret_cast<const void*>(ahead));  // NOLINT(performance-no-int-to-ptr)
}

// Adds each row's lanes to its sum: quarters in float32, the four lanes that are left in float64. Four rows
// are transposed on the way.
[[gnu::always_inline]] inline void add_lanes(const Floats (&rows)[4], double* sums) {
  const auto halves = [](const Floats& a, const Floats& b, Floats& both) {
    both = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  };
  Floats first;
  Floats last;
  halves(rows[0], rows[1], first);
  halves(rows[2], rows[3], last);
  const Floats quarters =
      __builtin_shufflevector(first, last, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(first, last, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  using Pair = double __attribute__((vector_size(2 * sizeof(Doubles))));
  const Pair two[2] = {
      __builtin_convertvector(__builtin_shufflevector(quarters, quarters, 0, 1, 2, 3, 4, 5, 6, 7), Pair),
      __builtin_convertvector(__builtin_shufflevector(quarters, quarters, 8, 9, 10, 11, 12, 13, 14, 15),
                              Pair)};
  const Pair neighbours = __builtin_shufflevector(two[0], two[1], 0, 2, 4, 6, 8, 10, 12, 14) +
                          __builtin_shufflevector(two[0], two[1], 1, 3, 5, 7, 9, 11, 13, 15);
  Doubles all;
  std::memcpy(&all, sums, sizeof all);
  all += __builtin_shufflevector(neighbours, neighbours, 0, 2, 4, 6) +
         __builtin_shufflevector(neighbours, neighbours, 1, 3, 5, 7);
  std::memcpy(sums, &all, sizeof all);
}

// The same of one row, in the same order.
[[gnu::always_inline]] inline void add_lanes(const Floats (&row)[1], double* sum) {
  FewFloats few[4];
  std::memcpy(few, &row[0], sizeof few);
  const Doubles lanes = __builtin_convertvector((few[0] + few[2]) + (few[1] + few[3]), Doubles);
  *sum += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

// What is left of some rows beyond whole steps, filled up with zeros.
template <int kRows>
struct PaddedSteps {
  float values[kRows][kStepCols] = {};
  PaddedSteps(const float* from, Index stride, Index n) {
    for (int r = 0; r < kRows; ++r)
      std::memcpy(values[r], from + r * stride, static_cast<std::size_t>(n) * sizeof(float));
  }
};

[[gnu::always_inline]] inline void load(const float* from, Floats& lanes) {
  std::memcpy(&lanes, from, sizeof lanes);
}

// Products of a step of some rows with one of the vector.
struct Multiply {
  const float* vector;

  template <int kRows>
  [[gnu::always_inline]] void operator()(const float* rows, Index stride, Index column,
                                         Floats (&sums)[2][kRows]) const {
    for (Index half = 0; half < 2; ++half) {
      Floats v;
      load(vector + column + half * kLanes, v);
      for (int r = 0; r < kRows; ++r) {
        Floats x;
        load(rows + r * stride + half * kLanes, x);
        sums[half][r] += x * v;
      }
    }
  }
};

// Squares of a step of some rows, which are also added to the sums of their columns, one after another.
struct Square {
  float* column_sums;

  template <int kRows>
  [[gnu::always_inline]] void operator()(const float* rows, Index stride, Index column,
                                         Floats (&sums)[2][kRows]) const {
    for (Index half = 0; half < 2; ++half) {
      Floats column_sum;
      load(column_sums + column + half * kLanes, column_sum);
      for (int r = 0; r < kRows; ++r) {
        Floats x;
        load(rows + r * stride + half * kLanes, x);
        sums[half][r] += x * x;
        column_sum += x;
      }
      std::memcpy(column_sums + column + half * kLanes, &column_sum, sizeof column_sum);
    }
  }
};

// Takes `step` along some rows; sums: (kRows), what its products add up to.
template <int kRows, typename Step>
[[gnu::always_inline]] inline void add_products(const float* rows, Index stride, Index n_cols, Step step,
                                                double* sums) {
  for (int r = 0; r < kRows; ++r) sums[r] = 0;
  for (Index first = 0; first < n_cols; first += kTileCols) {
    const Index end = std::min(first + kTileCols, n_cols);
    Floats lanes[2][kRows] = {};
    Index j = first;
    for (; j + kStepCols <= end; j += kStepCols) {
      for (int r = 0; r < kRows; ++r) {
        ask_ahead(rows + r * stride + j);
        ask_ahead(rows + r * stride + j + kLanes);
      }
      step(rows + j, stride, j, lanes);
    }
    if (j < end) step(PaddedSteps<kRows>(rows + j, stride, end - j).values[0], kStepCols, j, lanes);
    for (int r = 0; r < kRows; ++r) lanes[0][r] += lanes[1][r];
    add_lanes(lanes[0], sums);
  }
}

// The same of any number of rows: four share what is loaded of the vector or the column sums, and each row's
// sum is what it would be alone.
template <typename Step>
[[gnu::always_inline]] inline void add_products_of_rows(const float* rows, Index n_rows, Index n_cols,
                                                        Index stride, Step step, double* sums) {
  Index i = 0;
  for (; i + kRowsAtOnce <= n_rows; i += kRowsAtOnce)
    add_products<kRowsAtOnce>(rows + i * stride, stride, n_cols, step, sums + i);
  for (; i < n_rows; ++i) add_products<1>(rows + i * stride, stride, n_cols, step, sums + i);
}

// Products of rows with a vector that is filled up with zeros to whole steps.
KEYSCOPE_PER_PROCESSOR
void multiply_rows(const float* rows, Index n_rows, Index n_cols, Index stride, const float* vector,
                   double* products) {
  add_products_of_rows(rows, n_rows, n_cols, stride, Multiply{vector}, products);
}

double inverse_norm(double square) { return square == 0 ? 0 : 1 / std::sqrt(square); }

// Sum of the rows, tile by tile, and the inverses of their norms.
//   tile_sum: zeros, as many as fill whole steps
KEYSCOPE_PER_PROCESSOR
void add_and_measure_rows(const float* rows, Index n_rows, Index n_cols, Index stride, float* tile_sum,
                          double* sum, double* inverse_norms) {
  for (Index first = 0; first < n_rows; first += kTileRows) {
    const Index n = std::min(kTileRows, n_rows - first);
    double* norms = inverse_norms + first;
    add_products_of_rows(rows + first * stride, n, n_cols, stride, Square{tile_sum}, norms);
    for (Index i = 0; i < n; ++i) norms[i] = norms[i] == 0 ? 0 : 1 / __builtin_sqrt(norms[i]);
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
  bool safe = true;
  for (Index i = 0; i < n; ++i) safe &= is_safe(inverse_norms[i]);
  return safe;
}

KEYSCOPE_PER_PROCESSOR
void scale_products(const double* inverse_norms, Index n, double scale, double* products) {
  for (Index i = 0; i < n; ++i) products[i] *= inverse_norms[i] * scale;
}

Index padded(Index n_cols) { return (n_cols + kStepCols - 1) / kStepCols * kStepCols; }

// Numbers divided by the power of two that brings the largest magnitude to 1/2 … 1. What is not
// finite stays so.
struct Scaled {
  std::vector<float> values;  // filled up to whole steps
  int exponent = 0;

  template <typename Vector>
  explicit Scaled(const Vector& vector) : values(static_cast<std::size_t>(padded(vector.size()))) {
    const double largest = static_cast<double>(vector.cwiseAbs().maxCoeff());
    if (std::isfinite(largest)) std::frexp(largest, &exponent);
    for (Index j = 0; j < vector.size(); ++j)
      values[static_cast<std::size_t>(j)] =
          static_cast<float>(std::ldexp(static_cast<double>(vector[j]), -exponent));
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
  std::vector<float> tile_sum(static_cast<std::size_t>(padded(n_cols)));
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

void quick_cosines(const MatrixView& rows, const VectorXd& inverse_norms, const VectorXd& anchor,
                   std::span<double> cosines) {
  const double anchor_norm = anchor.norm();
  if (anchor_norm == 0 || rows.cols() == 0) return std::fill(cosines.begin(), cosines.end(), 0.0);
  const Scaled scaled(anchor);
  const double scale = std::ldexp(1.0, scaled.exponent) / anchor_norm;
  // From the last rows to the first: those that row_moments read last are still in the cache.
  constexpr Index kRows = 256;
  for (Index end = rows.rows(); end > 0; end -= std::min(end, kRows)) {
    const Index first = end - std::min(end, kRows);
    double* products = cosines.data() + first;
    multiply_rows(rows.data() + first * rows.outerStride(), end - first, rows.cols(), rows.outerStride(),
                  scaled.values.data(), products);
    const double* norms = inverse_norms.data() + first;
    if (!are_safe(norms, end - first))
      for (Index i = first; i < end; ++i)
        if (!is_safe(inverse_norms[i])) products[i - first] = product_of(rows.row(i), scaled.values.data());
    scale_products(norms, end - first, scale, products);
  }
}

}  // namespace keyscope::analysis
