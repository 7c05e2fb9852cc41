#include "analysis/policies/leverage.hpp"

#include <Eigen/Eigenvalues>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

constexpr double kSmallestEigenvalue =
    1e-10;  // of the largest; float32 keys carry about 1e-7 of noise, squared

class Leverage : public Policy {
 public:
  void score(const PolicyInput& input, std::span<double> scores) const override {
    const RowMatrixD keys = input.keys.cast<double>();
    const Eigen::MatrixXd gram = keys.transpose() * keys;
    if (!gram.allFinite()) throw InvalidInput("policy leverage: the keys hold NaN or Inf");
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(gram);
    const double cut = kSmallestEigenvalue * eigen.eigenvalues().maxCoeff();
    const Eigen::ArrayXd weight =
        (eigen.eigenvalues().array() > cut).select(eigen.eigenvalues().array().inverse().sqrt(), 0.0);
    const Eigen::MatrixXd whitening = eigen.eigenvectors() * weight.matrix().asDiagonal();
    Eigen::Map<Eigen::VectorXd>(scores.data(), keys.rows()) = (keys * whitening).rowwise().squaredNorm();
  }
};

std::unique_ptr<Policy> make_leverage(const PolicySpec&) { return std::make_unique<Leverage>(); }

}  // namespace

PolicyDefinition leverage_definition() {
  return {"leverage", "keys that the others span least stay (leverage scores)", {}, make_leverage};
}

}  // namespace keyscope::analysis
