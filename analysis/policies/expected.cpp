#include <cmath>
#include <memory>

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include "analysis/policies/registry.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

PolicyNeeds expectation_needs() {
  PolicyNeeds needs;
  needs.values = needs.rotation = needs.query_moments = true;
  return needs;
}

// From the true position of the last row on.
MeanRotation mean_rotation(const PolicyInput& input) {
  return {*input.rotation, std::int64_t{input.positions.back()} + 1, kFuturePositions};
}

Eigen::ArrayXd softmax(const Eigen::ArrayXd& x) {
  const Eigen::ArrayXd e = (x - x.maxCoeff()).exp();
  return e / e.sum();
}

class Expected final : public Policy {
 public:
  explicit Expected(double epsilon) : epsilon_(epsilon) {}

  PolicyNeeds needs() const override { return expectation_needs(); }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const RowMatrixD keys = input.keys.cast<double>();
    const auto d = static_cast<double>(keys.cols());
    const MeanRotation turn = mean_rotation(input);
    Eigen::ArrayXd weights = Eigen::ArrayXd::Zero(keys.rows());
    for (const QueryMoments& moments : input.query_moments) {
      const Eigen::VectorXd mean = turn(moments.mean());
      const Eigen::MatrixXd spread = turn(moments.covariance());
      weights += softmax((keys * mean).array() / std::sqrt(d) +
                         (keys * spread).cwiseProduct(keys).rowwise().sum().array() / (2 * d));
    }
    weights /= static_cast<double>(input.query_moments.size());
    Eigen::Map<Eigen::ArrayXd>(scores.data(), keys.rows()) =
        (weights + epsilon_) * row_norms(input.values).array();
  }

 private:
  double epsilon_;
};

std::unique_ptr<Policy> make_expected(const PolicySpec& spec) {
  return std::make_unique<Expected>(read_fraction(spec, "epsilon"));
}

}  // namespace

PolicyDefinition expected_definition() {
  return {
      "expected",
      "rows that the next queries are expected to attend to, with large values, stay (Expected Attention)",
      {{"epsilon", "0…1", "0.01"}},
      make_expected};
}

namespace {

class CapKv final : public Policy {
 public:
  explicit CapKv(double tau) : tau_(tau) {}

  PolicyNeeds needs() const override { return expectation_needs(); }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const RowMatrixD keys = input.keys.cast<double>(), values = input.values.cast<double>();
    const Eigen::VectorXd norms = row_norms(input.keys);
    const MeanRotation turn = mean_rotation(input);
    Eigen::Map<Eigen::ArrayXd> sums(scores.data(), keys.rows());
    sums.setZero();
    for (const QueryMoments& moments : input.query_moments) {
      const Eigen::VectorXd mean = turn(moments.mean());
      const Eigen::ArrayXd lengths = norms.array() * mean.norm();
      const Eigen::ArrayXd cosines = (lengths == 0).select(0.0, (keys * mean).array() / lengths);
      const Eigen::ArrayXd weight = (tau_ * cosines).exp();
      Eigen::MatrixXd a = Eigen::MatrixXd::Identity(values.cols(), values.cols());
      a.noalias() += values.transpose() * weight.matrix().asDiagonal() * values;
      const Eigen::MatrixXd solved = a.ldlt().solve(values.transpose());
      sums += weight * (solved.transpose().cwiseProduct(values)).rowwise().sum().array();
    }
    sums /= static_cast<double>(input.query_moments.size());
  }

 private:
  double tau_;
};

std::unique_ptr<Policy> make_capkv(const PolicySpec& spec) {
  const double tau = read_positive(spec, "tau");
  constexpr double kMost = 500;  // e to its power is a number
  if (tau > kMost) throw UsageError("policy capkv: tau is more than 500");
  return std::make_unique<CapKv>(tau);
}

}  // namespace

PolicyDefinition capkv_definition() {
  return {"capkv",
          "values that span most, weighted by the mean query, stay (CapKV)",
          {{"tau", "more than 0", "5"}},
          make_capkv};
}

}  // namespace keyscope::analysis
