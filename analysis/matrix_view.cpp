#include "analysis/matrix_view.hpp"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "analysis/per_processor.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

// 0 · x is 0 for every finite x and NaN for all others: one sum, no branch.
KEYSCOPE_PER_PROCESSOR
bool only_finite(const float* numbers, Eigen::Index n) {
  constexpr Eigen::Index kLanes = 8;
  constexpr Eigen::Index kChains = 4;
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
  Floats sums[kChains] = {};
  Eigen::Index i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes)
    for (Eigen::Index chain = 0; chain < kChains; ++chain) {
      Floats x;
      std::memcpy(&x, numbers + i + chain * kLanes, sizeof x);
      sums[chain] += x * 0.0F;
    }
  const Floats lanes = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = 0;
  for (Eigen::Index lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  for (; i < n; ++i) sum += numbers[i] * 0.0F;
  return sum == 0.0F;
}

}  // namespace

void require_finite(const MatrixView& rows, std::string_view subject) {
  const bool dense = rows.outerStride() == rows.cols();
  if (dense && only_finite(rows.data(), rows.size())) return;
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    if (only_finite(rows.data() + i * rows.outerStride(), rows.cols())) continue;
    for (Eigen::Index j = 0; j < rows.cols(); ++j)
      if (!std::isfinite(rows(i, j)))
        throw InvalidInput(fmt::format("{}: row {}, column {} is {}; all entries must be finite", subject, i,
                                       j, rows(i, j)));
  }
}

}  // namespace keyscope::analysis
