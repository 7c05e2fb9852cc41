#pragma once

// The two passes over cached rows that scoring a cache comes down to: float32 rows are read once, every
// product and sum is float64. Both run at the processor's vector width.

#include <span>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Adds every row to `sum`.
//   rows: (n_rows, n_cols); sum: (n_cols)
void add_rows(const MatrixView& rows, std::span<double> sum);

// Per row, its product with `vector` and its squared norm.
//   rows: (n_rows, n_cols); vector: (n_cols); products, squared_norms: (n_rows)
void row_products(const MatrixView& rows, std::span<const double> vector, std::span<double> products,
                  std::span<double> squared_norms);

}  // namespace keyscope::analysis
