#pragma once

#include <string_view>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Throws InvalidInput naming `subject` and the first entry that is NaN or infinite. Stands before every
// decomposition: LAPACK-like iterations may never end on such input.
void require_finite(const MatrixView& rows, std::string_view subject);

}  // namespace keyscope::analysis
