#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keyscope::analysis {

enum class CorrelationStatus {
  kDefined,
  kEmpty,       // no pairs
  kConstant,    // all ranks of one input are equal: no correlation exists (one pair included)
  kNotANumber,  // a NaN has no rank
};

struct RankCorrelation {
  double rho;  // NaN unless the status is kDefined
  CorrelationStatus status;
};

// Ranks from 1, equal values sharing the mean of their ranks. Infinities rank as the extremes they are.
//   values: no NaN, otherwise the ranks mean nothing
std::vector<double> average_ranks(std::span<const double> values);

// Values, sorted once for every correlation that they go into; the values themselves are not kept.
class Ranked {
 public:
  explicit Ranked(std::span<const double> values);

  std::size_t size() const { return ranks_.size(); }
  bool has_nan() const { return has_nan_; }                           // ranks and order then mean nothing
  const std::vector<double>& ranks() const { return ranks_; }         // as `average_ranks` gives them
  const std::vector<std::uint32_t>& order() const { return order_; }  // places of the values, ascending

 private:
  std::vector<double> ranks_;
  std::vector<std::uint32_t> order_;
  bool has_nan_;
};

// Spearman's ρ: Pearson's correlation of average ranks. Where it does not exist, NaN and the reason.
//   throws InvalidInput where the sizes differ
//   source: KeyDiff (arXiv 2504.15364), Appendix C.4, Table 3
RankCorrelation spearman(const Ranked& x, const Ranked& y);
RankCorrelation spearman(std::span<const double> x, std::span<const double> y);

struct KendallCorrelation {
  double tau;  // NaN unless the status is kDefined
  CorrelationStatus status;
};

// Kendall's τ-b: (C - D) / √((C + D + Tx) (C + D + Ty)) over all pairs of places, C of which x and y order
// alike, D the other way round, Tx tied in x alone and Ty in y alone. Where it does not exist, NaN and the
// reason. Infinities are the extremes they are. In O(n log n).
//   throws InvalidInput where the sizes differ
//   source: Kendall, Biometrika 33 (1945); counted as by Knight, J. Am. Stat. Assoc. 61 (1966)
KendallCorrelation kendall(const Ranked& x, const Ranked& y);
KendallCorrelation kendall(std::span<const double> x, std::span<const double> y);

// Spearman's ρ of x and y given z: Pearson's correlation of what is left of the average ranks of x and of y
// once each is regressed, with an intercept, on the ranks of z. With z a token's position it tells an
// agreement between two measures from their common drift along the prompt. A z that is constant explains
// nothing: the result is then spearman(x, y). Where the ranks of x or of y are an affine function of those of
// z, nothing is left and the status is kConstant.
//   throws InvalidInput where the sizes differ
//   accuracy: 1e-12 up to some 10^5 values
//   source: Yule, Proc. R. Soc. A 79 (1907), of ranks: (ρxy - ρxz ρyz) / √((1 - ρxz²) (1 - ρyz²))
RankCorrelation partial_spearman(const Ranked& x, const Ranked& y, const Ranked& z);
RankCorrelation partial_spearman(std::span<const double> x, std::span<const double> y,
                                 std::span<const double> z);

}  // namespace keyscope::analysis
