#include <algorithm>
#include <memory>

#include <Eigen/Core>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"

namespace keyscope::analysis {
namespace {

constexpr std::uint64_t kLongestWindow = 1 << 16;

int read_window(const PolicySpec& spec) {
  return static_cast<int>(read_whole_number(spec, "window", 1, kLongestWindow));
}

class DropKv final : public Policy {
 public:
  explicit DropKv(int window) : window_(window) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.values = true;
    needs.window_weights = window_;
    return needs;
  }

  // ‖v - o‖² = ‖v‖² - 2 v·o + ‖o‖², of all rows and queries by one product.
  void score(const PolicyInput& input, std::span<double> scores) const override {
    constexpr double kLeast = 1e-6;  // of 1 - p
    const RowMatrixD& weights = *input.window_weights;
    require_finite(input.values, "policy dropkv: values");  // the maximum below may lose NaN
    const RowMatrixD values = input.values.cast<double>();
    const RowMatrixD outputs = weights * values;
    const Eigen::ArrayXd value_squares = values.rowwise().squaredNorm();
    const Eigen::ArrayXd output_squares = outputs.rowwise().squaredNorm();
    const RowMatrixD products = outputs * values.transpose();
    Eigen::Map<Eigen::ArrayXd> sums(scores.data(), values.rows());
    sums.setZero();
    for (Eigen::Index query = 0; query < weights.rows(); ++query) {
      const Eigen::ArrayXd p = weights.row(query).transpose().array();
      const Eigen::ArrayXd squares =
          (value_squares - 2 * products.row(query).transpose().array() + output_squares[query]).max(0.0);
      sums += (p / (1 - p).max(kLeast)).square() * squares;
    }
    sums /= input.group_size;
  }

 private:
  int window_;
};

std::unique_ptr<Policy> make_dropkv(const PolicySpec& spec) {
  return std::make_unique<DropKv>(read_window(spec));
}

class Defensive final : public Policy {
 public:
  Defensive(int window, std::int64_t kernel) : window_(window), kernel_(kernel) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.window_weights = window_;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const RowMatrixD& weights = *input.window_weights;
    const Eigen::ArrayXd largest =
        (kernel_ > 1 ? pooled(weights) : weights).colwise().maxCoeff().transpose().array();
    Eigen::Map<Eigen::ArrayXd>(scores.data(), largest.size()) = largest.max(largest.mean());
  }

 private:
  // Means over neighbouring rows, those beyond the ends as zeros.
  RowMatrixD pooled(const RowMatrixD& weights) const {
    const std::int64_t n = weights.cols(), reach = kernel_ / 2;
    RowMatrixD means(weights.rows(), n);
    for (std::int64_t row = 0; row < n; ++row) {
      const std::int64_t first = std::max<std::int64_t>(0, row - reach), end = std::min(n, row + reach + 1);
      means.col(row) = weights.middleCols(first, end - first).rowwise().sum() / static_cast<double>(kernel_);
    }
    return means;
  }

  int window_;
  std::int64_t kernel_;
};

std::unique_ptr<Policy> make_defensive(const PolicySpec& spec) {
  return std::make_unique<Defensive>(read_window(spec), read_kernel(spec));
}

}  // namespace

PolicyDefinition dropkv_definition() {
  return {"dropkv",
          "rows whose loss alone would change the last queries' outputs most stay (as CAOTE measures it)",
          {{"window", "1…65536", "32"}},
          make_dropkv};
}

PolicyDefinition defensive_definition() {
  return {"defensive",
          "rows that any of the last queries attends to stay, none counting less than the mean (DefensiveKV)",
          {{"window", "1…65536", "32"}, {"kernel", "1…65536, odd", "1"}},
          make_defensive};
}

}  // namespace keyscope::analysis
