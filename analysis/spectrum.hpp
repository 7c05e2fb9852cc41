#pragma once

#include <cstdint>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// How many directions a set of keys uses, as real numbers between 1 and min(n_keys, head_dim), over its
// singular values σ; 0 where all keys are zero. Neither depends on the order, the scale or a rotation of the
// keys.
struct Spectrum {
  double participation_ratio = 0;  // (Σσ²)² / Σσ⁴: of the energy
  double effective_rank = 0;  // exp(-Σ p ln p), p = σ / Σσ: the entropy of the singular values themselves
};

// The spectrum of keys, raw and uncentred, by the Gram matrix of log_volume: none of size n_keys x n_keys.
//   keys: (n_keys, head_dim), finite, at least one
//   throws InvalidInput otherwise
//   accuracy: 1e-8 relative
//   source: effective rank as Roy and Vetterli, EUSIPCO 2007, define it, over σ and not σ²; participation
//   ratio as Bell and Dean, Discuss. Faraday Soc. 50 (1970), of the eigenvalues of the second moments
Spectrum measure_spectrum(const MatrixView& keys);
// The same of what squared_singular_values found.
Spectrum spectrum_of(const Eigen::VectorXd& squares);

// Squares of the min(n_rows, n_cols) singular values, in any order. Only a Gram matrix of that size is
// formed.
//   rows: (n_rows, n_cols), finite, at least one row and one column; callers check
//   accuracy: 1e-8 relative, of all that are above 1e-14 of the largest; where the rows are so well
//   conditioned that squaring loses nothing, the eigenvalues of the Gram matrix, else an SVD of the rows
Eigen::VectorXd squared_singular_values(const MatrixView& rows);

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
// The same of keys whose squared_singular_values are known.
LogVolume log_volume_of(const MatrixView& keys, const Eigen::VectorXd& squares);

}  // namespace keyscope::analysis
