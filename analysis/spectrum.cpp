#include "analysis/spectrum.hpp"

#include <cmath>

#include "base/errors.hpp"
#include "analysis/finite_rows.hpp"
#include "analysis/singular_values.hpp"

namespace keyscope::analysis {

Spectrum measure_spectrum(const MatrixView& keys) {
  if (keys.rows() == 0 || keys.cols() == 0) throw InvalidInput("spectrum: there are no keys");
  require_finite(keys, "spectrum");
  // Rounding can leave -1e-17 where a singular value is zero.
  Eigen::ArrayXd squares = squared_singular_values(keys).array().max(0.0);
  const double largest = squares.maxCoeff();
  if (largest == 0) return {};
  squares /= largest;
  const Eigen::ArrayXd shares = squares.sqrt() / squares.sqrt().sum();
  double entropy_nats = 0;
  for (const double share : shares)
    if (share > 0) entropy_nats -= share * std::log(share);
  return {squares.sum() * squares.sum() / squares.square().sum(), std::exp(entropy_nats)};
}

}  // namespace keyscope::analysis
