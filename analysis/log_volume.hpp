#pragma once

#include <cstdint>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// How much space a set of keys spans.
struct LogVolume {
  double log_volume_nats = 0;              // Σ ln σ² over the singular values σ > threshold
  std::int64_t rank = 0;                   // their number
  double threshold = 0;                    // 1e-6 of the largest singular value
  double regularised_log_volume_nats = 0;  // log det(I + K̂ᵀK̂), K̂ the keys at unit norm
};

// Pseudo-log-determinant of the Gram matrix of keys, raw and uncentred: equal to log det(KᵀK) at full column
// rank and to log det(KKᵀ) at full row rank, well defined elsewhere. Of keys that are all zero: 0, with rank
// 0.
//   keys: (n_keys, head_dim), finite, at least one
//   throws InvalidInput otherwise
//   accuracy: 1e-8 relative, whatever the condition of the keys
//   source: KeyDiff (arXiv 2504.15364), Fig. 12, whose log det(KKᵀ) is singular for n_keys > head_dim
LogVolume log_volume(const MatrixView& keys);

}  // namespace keyscope::analysis
