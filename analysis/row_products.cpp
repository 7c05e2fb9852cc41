#include "analysis/row_products.hpp"

#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {
namespace {

using Index = Eigen::Index;

// Eight lanes, fixed in the source, so that sums are taken in the same order at every vector width.
constexpr Index kLanes = 8;
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
    Doubles product[2] = {};  // two chains each, to hide the latency of the additions
    Doubles square[2] = {};
    Index j = 0;
    for (; j + 2 * kLanes <= n_cols; j += 2 * kLanes) {
      for (Index half = 0; half < 2; ++half) {
        Floats x_narrow;
        Doubles v;
        std::memcpy(&x_narrow, row + j + half * kLanes, sizeof x_narrow);
        std::memcpy(&v, vector + j + half * kLanes, sizeof v);
        const Doubles x = __builtin_convertvector(x_narrow, Doubles);
        product[half] += x * v;
        square[half] += x * x;
      }
    }
    product[0] += product[1];
    square[0] += square[1];
    double product_sum = 0;
    double square_sum = 0;
    for (Index lane = 0; lane < kLanes; ++lane) {
      product_sum += product[0][lane];
      square_sum += square[0][lane];
    }
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
