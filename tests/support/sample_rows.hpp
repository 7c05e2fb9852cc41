#pragma once

// Rows drawn from a seed, bit for bit those of goldens/sample_rows.py: the goldens need to hold results only.

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "analysis/matrix_view.hpp"

namespace keyscope {

// n numbers of [0, 1).
std::vector<double> sample_uniform(std::uint64_t seed, std::size_t n);

// Uniform over offset ± 1/2; every `halve_every` columns half as large as those before.
RowMatrixF sample_rows(std::uint64_t seed, Eigen::Index n_rows, Eigen::Index n_cols, double offset = 0,
                       Eigen::Index halve_every = 0);

// Rows of exactly that rank.
RowMatrixF sample_low_rank_rows(std::uint64_t seed, Eigen::Index n_rows, Eigen::Index n_cols,
                                Eigen::Index rank);

// The rows that a golden describes: `seed`, `rows`, `cols`, and `low_rank` or else `offset` and
// `halve_every`.
RowMatrixF sample_rows(const nlohmann::json& golden);

}  // namespace keyscope
