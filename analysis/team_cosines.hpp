#pragma once

// Cosines of the rows of many heads with their head's mean, which is what KeyDiff scores by (arXiv
// 2504.15364, Eq. 8), by a team of threads that share every head by its rows. A head is read twice. Dealt out
// whole, one of 8192 rows of 128 numbers is several times as large as the second-level cache of the core that
// reads it again; shared by the threads more of it fits, and where there are fewer heads than cores, all
// cores have work.

#include <span>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

//   heads: (n_rows, n_cols) each, of any number of rows
//   cosines: for each head (n_rows), accurate as those of quick_cosines: 0 where the row or the mean is zero,
//   NaN where either is not finite; the same with any number of threads
//   n_threads: at least 1, the caller's among them; as many as there are cores to run them at the same time,
//   because they wait for each other
//   throws std::system_error if the threads cannot be had, std::bad_alloc if the memory cannot
void cosines_with_means(std::span<const MatrixView> heads, std::span<const std::span<double>> cosines,
                        int n_threads);

}  // namespace keyscope::analysis
