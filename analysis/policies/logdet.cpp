#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

class LogDet : public Policy {
 public:
  explicit LogDet(double ridge) : ridge_(ridge) {}

  // Adding k to M = λI + Σ k kᵀ raises log det M by log(1 + kᵀM⁻¹k). With u = M⁻¹k / √(1 + kᵀM⁻¹k) the new
  // inverse is M⁻¹ - uuᵀ (Sherman-Morrison), so every row's kᵀM⁻¹k falls by (kᵀu)².
  void score(const PolicyInput& input, std::span<double> scores) const override {
    const RowMatrixD keys = input.keys.cast<double>();
    const Eigen::Index n_rows = keys.rows(), head_dim = keys.cols();
    if (!keys.allFinite()) throw InvalidInput("policy logdet: the keys hold NaN or Inf");
    const double mean_square =
        keys.squaredNorm() / static_cast<double>(std::max<Eigen::Index>(1, keys.size()));
    if (mean_square == 0) return std::fill(scores.begin(), scores.end(), 0.0);
    const double lambda = ridge_ * mean_square;
    Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(head_dim, head_dim) / lambda;
    Eigen::ArrayXd rest = keys.rowwise().squaredNorm().array() / lambda;  // kᵀM⁻¹k of every row
    double ceiling = std::numeric_limits<double>::infinity();
    for (Eigen::Index taken = 0; taken < n_rows; ++taken) {
      Eigen::Index best = 0;
      const double most = rest.maxCoeff(&best);
      // Rounding may let a gain rise by a hair; the order of the scores is that of the taking.
      ceiling = std::min(ceiling, std::log1p(std::max(0.0, most)));
      scores[best] = ceiling;
      const Eigen::VectorXd u = inverse * keys.row(best).transpose() / std::sqrt(1 + std::max(0.0, most));
      inverse.noalias() -= u * u.transpose();
      rest -= (keys * u).array().square();
      rest[best] = kTaken;
      for (Eigen::Index i = 0; i < n_rows; ++i)
        if (rest[i] < 0 && rest[i] > kTaken / 2) rest[i] = 0;
    }
  }

 private:
  static constexpr double kTaken = -std::numeric_limits<double>::max();
  double ridge_;
};

std::unique_ptr<Policy> make_logdet(const PolicySpec& spec) {
  return std::make_unique<LogDet>(read_positive(spec, "ridge"));
}

}  // namespace

PolicyDefinition logdet_definition() {
  return {"logdet",
          "keys that span the largest volume stay, greedily (log-det)",
          {{"ridge", "more than 0", "1"}},
          make_logdet};
}

}  // namespace keyscope::analysis
