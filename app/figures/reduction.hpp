#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::figures {

// How a block of cells becomes one pixel. `max` keeps single bright columns (attention sinks) visible;
// `first`, its first cell that has a value, is for categories, whose shares it keeps.
enum class Reduction { kMean, kMax, kMin, kFirst };

std::string_view reduction_name(Reduction reduction);
Reduction parse_reduction(std::string_view name);  // throws UsageError

// A large matrix that arrives in bands of whole rows and is kept small: every few rows × columns become one
// cell. NaN cells are left out; a cell of NaN alone stays NaN.
class ReducedMatrix {
 public:
  // As many rows as columns become a cell, the fewest that leave at most max_size of either.
  ReducedMatrix(Eigen::Index n_rows, Eigen::Index n_cols, Eigen::Index max_size, Reduction reduction);

  // rows, cols: of the large matrix that become a cell, 1 or more
  ReducedMatrix(Eigen::Index n_rows, Eigen::Index n_cols, Eigen::Index rows, Eigen::Index cols,
                Reduction reduction);

  // Rows [first, first + band.rows()) of the large matrix; bands come in order, each row once.
  void add_rows(Eigen::Index first, const MatrixView& band);

  RowMatrixF finish();
  Eigen::Index rows_per_cell() const { return rows_per_cell_; }
  Eigen::Index cols_per_cell() const { return cols_per_cell_; }

 private:
  void add_cell(Eigen::Index row, Eigen::Index column, double sum, float low, float high, float first,
                std::int64_t count);

  Eigen::Index rows_per_cell_, cols_per_cell_;
  Reduction reduction_;
  RowMatrixD sum_;  // or the extreme so far
  Eigen::Matrix<std::int64_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> count_;
};

// "showing 512 of 1,024 rows and columns (mean of 2 × 2)", or nothing where nothing was reduced.
std::string reduction_note(const Heatmap& heatmap, std::int64_t n_tokens);

}  // namespace keyscope::figures
