#include "analysis/packed_rows.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {
namespace {

using Index = Eigen::Index;

constexpr Index kStripRows = 16;
constexpr Index kVectorsAtOnce =
    4;  // with two vectors of a strip: eight running sums, which fit the registers

// Products of up to four vectors with the rows of one strip: (n_vectors, 16).
template <int kBytes>
[[gnu::always_inline]] inline void multiply_strip_by(const double* const* vectors, const double* strip,
                                                     Index n_cols, double* products) {
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
      std::memcpy(products + v * kStripRows + first, sums[v], sizeof sums[v]);
  }
}
KEYSCOPE_BY_WIDTH(multiply_strip,
                  (const double* const* vectors, const double* strip, Index n_cols, double* products),
                  (vectors, strip, n_cols, products))

}  // namespace

PackedRows::PackedRows(const RowMatrixD& rows)
    : n_rows_(rows.rows()),
      n_cols_(rows.cols()),
      strips_(
          static_cast<std::size_t>((rows.rows() + kStripRows - 1) / kStripRows * kStripRows * rows.cols())) {
  for (Index i = 0; i < n_rows_; ++i) {
    double* strip = strips_.data() + i / kStripRows * kStripRows * n_cols_;
    for (Index c = 0; c < n_cols_; ++c) strip[c * kStripRows + i % kStripRows] = rows(i, c);
  }
}

void PackedRows::multiply(const Eigen::Ref<const RowMatrixD>& vectors, RowMatrixD& products,
                          Index first_row) const {
  assert(first_row % kStripRows == 0);
  products.resize(vectors.rows(), n_rows_ - first_row);
  double tile[kVectorsAtOnce * kStripRows];
  for (Index row = first_row; row < n_rows_; row += kStripRows) {
    const double* strip = strips_.data() + row * n_cols_;
    const auto n = static_cast<std::size_t>(std::min(kStripRows, n_rows_ - row));
    for (Index first = 0; first < vectors.rows(); first += kVectorsAtOnce) {
      const Index n_vectors = std::min(kVectorsAtOnce, vectors.rows() - first);
      const double* pointers[kVectorsAtOnce];
      for (Index v = 0; v < kVectorsAtOnce; ++v)
        pointers[v] = vectors.row(first + std::min(v, n_vectors - 1)).data();
      multiply_strip(pointers, strip, n_cols_, tile);
      for (Index v = 0; v < n_vectors; ++v)
        std::memcpy(&products(first + v, row - first_row), tile + v * kStripRows, n * sizeof(double));
    }
  }
}

}  // namespace keyscope::analysis
