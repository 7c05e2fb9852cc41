#pragma once

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

}  // namespace keyscope::analysis
