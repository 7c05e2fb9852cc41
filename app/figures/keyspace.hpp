#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/matrix_view.hpp"

namespace keyscope::figures {

// Positions of the keys that KeyDiff scores highest, -cos(k_i, mean key), the highest first and the lower
// position of equal ones: what the paper marks in its Fig. 4 and 11.
//   keys: (n_keys, head_dim); at most `count` positions, and none where the mean has no direction
std::vector<std::int32_t> top_keydiff_keys(const MatrixView& keys, std::size_t count);

}  // namespace keyscope::figures
