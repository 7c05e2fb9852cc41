#pragma once

#include <vector>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Rows laid out so that their products with many vectors run at the processor's vector width: strips of 16
// rows, coordinate after coordinate, the last strip filled up with zeros. Float64.
class PackedRows {
 public:
  // rows: (n_rows, n_cols), copied
  explicit PackedRows(const RowMatrixD& rows);

  Eigen::Index rows() const { return n_rows_; }
  Eigen::Index cols() const { return n_cols_; }

  // Products of every vector with every row from `first_row` on, A·Rᵀ.
  //   vectors: (n_vectors, n_cols); products: resized to (n_vectors, n_rows - first_row)
  //   first_row: a multiple of 16
  void multiply(const Eigen::Ref<const RowMatrixD>& vectors, RowMatrixD& products,
                Eigen::Index first_row = 0) const;

 private:
  Eigen::Index n_rows_;
  Eigen::Index n_cols_;
  std::vector<double> strips_;
};

}  // namespace keyscope::analysis
