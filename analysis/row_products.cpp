#include "analysis/row_products.hpp"

#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {
namespace {

using Index = Eigen::Index;

// Four lanes, fixed in the source, so that sums are taken in the same order at every vector width, in four
// chains, to hide the latency of the additions.
constexpr Index kLanes = 4;
constexpr Index kChains = 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

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
    Doubles product[kChains] = {};
    Doubles square[kChains] = {};
    Index j = 0;
    for (; j + kChains * kLanes <= n_cols; j += kChains * kLanes) {
      for (Index chain = 0; chain < kChains; ++chain) {
        Floats x_narrow;
        Doubles v;
        std::memcpy(&x_narrow, row + j + chain * kLanes, sizeof x_narrow);
        std::memcpy(&v, vector + j + chain * kLanes, sizeof v);
        const Doubles x = __builtin_convertvector(x_narrow, Doubles);
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

}  // namespace keyscope::analysis
