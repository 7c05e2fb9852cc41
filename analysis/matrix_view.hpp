#pragma once

#include <string_view>

#include <Eigen/Core>

namespace keyscope {

// Rows are tokens, columns are coordinates of a head: the layout of a KV cache and of a recording.
using RowMatrixF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMatrixD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A read-only view of row-major float32 rows, from a RowMatrixF, a block of its rows, or an Eigen::Map; rows
// may be spaced. Passing one copies nothing.
using MatrixView = Eigen::Ref<const RowMatrixF, 0, Eigen::OuterStride<>>;

// A view of `n_rows` contiguous rows of `n_cols` floats that lie elsewhere.
inline Eigen::Map<const RowMatrixF> view_rows(const float* data, Eigen::Index n_rows, Eigen::Index n_cols) {
  return {data, n_rows, n_cols};
}

}  // namespace keyscope

namespace keyscope::analysis {

// Throws InvalidInput naming `subject` and the first entry that is NaN or infinite. Stands before every
// decomposition: LAPACK-like iterations may never end on such input.
void require_finite(const MatrixView& rows, std::string_view subject);

}  // namespace keyscope::analysis
