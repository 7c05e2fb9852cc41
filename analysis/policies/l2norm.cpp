#include <cmath>

#include "analysis/policies/registry.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::analysis {
namespace {

constexpr int kSignificantDigits = 5;

// To so many significant decimal digits; the same double for all numbers that round alike.
double round_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)))) - (kSignificantDigits - 1);
  const double unit = std::pow(10.0, std::abs(exponent));
  return exponent < 0 ? std::round(value * unit) / unit : std::round(value / unit) * unit;
}

class L2Norm : public Policy {
 public:
  explicit L2Norm(int skip) : skip_(skip) {}

  bool evicts(int layer) const override { return layer >= skip_; }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const Eigen::VectorXd norms = row_norms(input.keys);
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = -round_digits(norms[static_cast<Eigen::Index>(i)]);
  }

 private:
  int skip_;
};

std::unique_ptr<Policy> make_l2norm(const PolicySpec& spec) {
  return std::make_unique<L2Norm>(static_cast<int>(read_whole_number(spec, "skip", 0, 1 << 16)));
}

}  // namespace

PolicyDefinition l2norm_definition() {
  return {"l2norm", "keys of small norm stay (L2)", {{"skip", "0…65536", "0"}}, make_l2norm};
}

}  // namespace keyscope::analysis
