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

// Adds the lanes to `sum`: quarters in float32, the rest in float64.
[[gnu::always_inline]] inline void add_lanes(const Floats& lanes, double& sum) {
  FewFloats few[4];
  std::memcpy(few, &lanes, sizeof few);
  const Doubles sums = __builtin_convertvector((few[0] + few[1]) + (few[2] + few[3]), Doubles);
  sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// `n` values, filled up with zeros to a whole step.
struct PaddedStep {
  float values[kStepCols] = {};
  PaddedStep(const float* from, Index n) {
    std::memcpy(values, from, static_cast<std::size_t>(n) * sizeof(float));
  }
};

[[gnu::always_inline]] inline void multiply_step(const float* row, const float* vector, Floats (&sums)[2]) {
  for (Index half = 0; half < 2; ++half) {
    Floats x;
    Floats v;
    std::memcpy(&x, row + half * kLanes, sizeof x);
    std::memcpy(&v, vector + half * kLanes, sizeof v);
    sums[half] += x * v;
  }
}

// As multiply_step with the row itself, and adds it to `column_sums`.
[[gnu::always_inline]] inline void square_step(const float* row, float* column_sums, Floats (&squares)[2]) {
  for (Index half = 0; half < 2; ++half) {
    Floats x;
    Floats column_sum;
    std::memcpy(&x, row + half * kLanes, sizeof x);
    std::memcpy(&column_sum, column_sums + half * kLanes, sizeof column_sum);
    squares[half] += x * x;
    column_sum += x;
    std::memcpy(column_sums + half * kLanes, &column_sum, sizeof column_sum);
  }
}

// Products of rows with a vector that is filled up with zeros to whole steps.
KEYSCOPE_PER_PROCESSOR
void multiply_rows(const float* rows, Index n_rows, Index n_cols, Index stride, const float* vector,
                   double* products) {
  for (Index i = 0; i < n_rows; ++i) {
    const float* row = rows + i * stride;
    double product = 0;
    for (Index first = 0; first < n_cols; first += kTileCols) {
      const Index end = std::min(first + kTileCols, n_cols);
      Floats sums[2] = {};
      Index j = first;
      for (; j + kStepCols <= end; j += kStepCols) {
        ask_ahead(row + j);
        ask_ahead(row + j + kLanes);
        multiply_step(row + j, vector + j, sums);
      }
      if (j < end) multiply_step(PaddedStep(row + j, end - j).values, vector + j, sums);
      add_lanes(sums[0] + sums[1], product);
    }
    products[i] = product;
  }
}

double inverse_norm(double square) { return square == 0 ? 0 : 1 / std::sqrt(square); }

// Sum of the rows, tile by tile, and the inverses of their norms.
//   tile_sum: zeros, as many as fill whole steps
KEYSCOPE_PER_PROCESSOR
void add_and_measure_rows(const float* rows, Index n_rows, Index n_cols, Index stride, float* tile_sum,
                          double* sum, double* inverse_norms) {
  for (Index i = 0; i < n_rows; ++i) {
    const float* row = rows + i * stride;
    double square = 0;
    for (Index first = 0; first < n_cols; first += kTileCols) {
      const Index end = std::min(first + kTileCols, n_cols);
      Floats squares[2] = {};
      Index j = first;
      for (; j + kStepCols <= end; j += kStepCols) {
        ask_ahead(row + j);
        ask_ahead(row + j + kLanes);
        square_step(row + j, tile_sum + j, squares);
      }
      if (j < end) square_step(PaddedStep(row + j, end - j).values, tile_sum + j, squares);
      add_lanes(squares[0] + squares[1], square);
    }
    inverse_norms[i] = inverse_norm(square);
    if ((i + 1) % kTileRows != 0 && i + 1 != n_rows) continue;
    for (Index j = 0; j < n_cols; ++j) {
      sum[j] += static_cast<double>(tile_sum[j]);
      tile_sum[j] = 0;
    }
  }
}

// Whether float32 held every product of such a row, and those with numbers up to 1: without overflow, and
// whatever fell below its range is nothing beside the sum.
bool is_safe(double inverse_norm) { return inverse_norm >= 0x1p-40 && inverse_norm <= 0x1p40; }

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
    Eigen::Map<VectorXd> block(cosines.data() + first, end - first);
    multiply_rows(rows.data() + first * rows.outerStride(), end - first, rows.cols(), rows.outerStride(),
                  scaled.values.data(), block.data());
    for (Index i = first; i < end; ++i)
      if (!is_safe(inverse_norms[i])) block[i - first] = product_of(rows.row(i), scaled.values.data());
    block = scale * block.cwiseProduct(inverse_norms.segment(first, end - first));
  }
}

}  // namespace keyscope::analysis
