#pragma once

#include <span>

#include "analysis/rank_correlation.hpp"

namespace keyscope::analysis {

// Spearman's ρ of x and y given z: Pearson's correlation of what is left of the average ranks of x and of y
// once each is regressed, with an intercept, on the ranks of z. With z a token's position it tells an
// agreement between two measures from their common drift along the prompt. A z that is constant explains
// nothing: the result is then spearman(x, y). Where the ranks of x or of y are an affine function of those of
// z, nothing is left and the status is kConstant.
//   throws InvalidInput where the sizes differ
//   accuracy: 1e-12 up to some 10^5 values
//   source: Yule, Proc. R. Soc. A 79 (1907), of ranks: (ρxy - ρxz ρyz) / √((1 - ρxz²) (1 - ρyz²))
RankCorrelation partial_spearman(std::span<const double> x, std::span<const double> y,
                                 std::span<const double> z);

}  // namespace keyscope::analysis
