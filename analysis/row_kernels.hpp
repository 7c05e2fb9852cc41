#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// The passes over cached rows that scoring a cache comes down to: float32 rows are read once, every product
// and sum is float64. All run at the processor's vector width.

// Adds every row to `sum`.
//   rows: (n_rows, n_cols); sum: (n_cols)
void add_rows(const MatrixView& rows, std::span<double> sum);

// The same of each row divided by its divisor: of opposite rows nothing is left.
//   divisors: (n_rows)
void add_divided_rows(const MatrixView& rows, std::span<const double> divisors, std::span<double> sum);

// Per row, its product with `vector` and its squared norm.
//   rows: (n_rows, n_cols); vector: (n_cols); products, squared_norms: (n_rows)
void row_products(const MatrixView& rows, std::span<const double> vector, std::span<double> products,
                  std::span<double> squared_norms);

// Rows laid out so that their products with many vectors run at the processor's vector width: strips of 16
// rows, coordinate after coordinate, the last strip filled up with zeros. Float64.
class PackedRows {
 public:
  // rows: (n_rows, n_cols), copied
  explicit PackedRows(const RowMatrixD& rows);
  // Of rows chosen by their indices: the rows; or their transpose, row j of which holds the rows' coordinate
  // j.
  static PackedRows of_rows(const MatrixView& rows, std::span<const std::int32_t> which);
  static PackedRows of_columns(const MatrixView& rows, std::span<const std::int32_t> which);

  Eigen::Index rows() const { return n_rows_; }
  Eigen::Index cols() const { return n_cols_; }

  // Products of every vector with every row from `first_row` up to `end_row`, A·Rᵀ.
  //   vectors: (n_vectors, n_cols); products: resized to (n_vectors, end_row - first_row)
  //   first_row: a multiple of 16; end_row: -1: the last and all
  void multiply(const Eigen::Ref<const RowMatrixD>& vectors, RowMatrixD& products, Eigen::Index first_row = 0,
                Eigen::Index end_row = -1) const;

 private:
  PackedRows(Eigen::Index n_rows, Eigen::Index n_cols);

  Eigen::Index n_rows_;
  Eigen::Index n_cols_;
  std::vector<double> strips_;
};

// Σ x xᵀ over rows, in float64, a tile of rows at a time: the second moments that PCA and log volumes start
// from. No copy of all rows is made. Runs at the processor's vector width.
class GramSum {
 public:
  explicit GramSum(Eigen::Index n_cols);

  // Adds the rows as they lie around `origin`, and them to the sum of rows.
  //   rows: (n_rows, n_cols); origin: (n_cols)
  void add_around(const MatrixView& rows, const Eigen::VectorXd& origin);

  // Adds each row times its factor.
  //   rows: (n_rows, n_cols); factors: (n_rows)
  void add_scaled(const MatrixView& rows, const Eigen::VectorXd& factors);

  // The sum so far: (n_cols, n_cols), symmetric.
  Eigen::MatrixXd matrix() const;
  // Σ (x - origin) over the rows that were added around one: (n_cols).
  Eigen::VectorXd row_sum() const { return row_sum_.head(n_cols_); }

 private:
  void add(const MatrixView& rows, const Eigen::VectorXd& origin, const Eigen::VectorXd& factors,
           bool sum_rows);

  Eigen::Index n_cols_;
  RowMatrixD tile_;  // strip after strip of 16 columns of a tile's rows, the last filled up with zeros
  Eigen::VectorXd row_sum_;  // likewise
  RowMatrixD sum_;  // columns filled up to whole strips; only those that reach the upper triangle are kept up
};

}  // namespace keyscope::analysis
