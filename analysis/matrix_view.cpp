#include "analysis/matrix_view.hpp"

#include <cmath>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {

void require_finite(const MatrixView& rows, std::string_view subject) {
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    // 0 · x is 0 for every finite x and NaN for all others: one sum, no branch, until there is something to
    // name.
    if ((rows.row(i).array() * 0.0F).sum() == 0.0F) continue;
    for (Eigen::Index j = 0; j < rows.cols(); ++j)
      if (!std::isfinite(rows(i, j)))
        throw InvalidInput(fmt::format("{}: row {}, column {} is {}; all entries must be finite", subject, i,
                                       j, rows(i, j)));
  }
}

}  // namespace keyscope::analysis
