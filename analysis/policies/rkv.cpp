#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <Eigen/Core>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::analysis {
namespace {

struct RkvOptions {
  int window = 8;
  std::int64_t kernel = 7;
  double weight = 0.1, threshold = 0.5;
};

class Rkv final : public Policy {
 public:
  explicit Rkv(const RkvOptions& options) : options_(options) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.window_weights = options_.window;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const std::vector<double> attention = pooled_attention(*input.window_weights);
    const Eigen::ArrayXd similar = mean_similarity(input.keys);
    const Eigen::ArrayXd weight = (similar - similar.maxCoeff()).exp();
    const double sum = weight.sum();
    for (std::size_t row = 0; row < scores.size(); ++row)
      scores[row] = options_.weight * attention[row] -
                    (1 - options_.weight) * weight[static_cast<Eigen::Index>(row)] / sum;
  }

  // Those of the window's queries: of a shorter block no others are there.
  void force(const PolicyInput& input, std::int64_t budget, std::span<std::uint8_t> forced) const override {
    force_recent(std::min<std::int64_t>(options_.window, input.n_new_rows), budget, forced);
  }

 private:
  std::vector<double> pooled_attention(const RowMatrixD& weights) const {
    const Eigen::RowVectorXd mean = weights.colwise().mean();
    const std::int64_t n = mean.size(), reach = options_.kernel / 2;
    std::vector<double> pooled;
    for (std::int64_t row = 0; row < n; ++row) {
      const std::int64_t first = std::max<std::int64_t>(0, row - reach), end = std::min(n, row + reach + 1);
      pooled.push_back(mean.segment(first, end - first).maxCoeff());
    }
    return pooled;
  }

  // Mean cosine to all rows, itself as 0; in every row's own list the latest that is similar counts 0 too. A
  // tile of the table at a time.
  Eigen::ArrayXd mean_similarity(const MatrixView& keys) const {
    constexpr Eigen::Index kTile = 256;
    RowMatrixD unit = keys.cast<double>();
    for (Eigen::Index row = 0; row < unit.rows(); ++row)
      if (const double norm = unit.row(row).norm(); norm > 0) unit.row(row) /= norm;
    Eigen::ArrayXd sums = Eigen::ArrayXd::Zero(unit.rows());
    for (Eigen::Index first = 0; first < unit.rows(); first += kTile) {
      const Eigen::Index n = std::min(kTile, unit.rows() - first);
      RowMatrixD cosines = unit.middleRows(first, n) * unit.transpose();
      for (Eigen::Index i = 0; i < n; ++i) {
        cosines(i, first + i) = 0;
        for (Eigen::Index other = unit.rows() - 1; other >= 0; --other)
          if (cosines(i, other) > options_.threshold) {
            cosines(i, other) = 0;
            break;
          }
      }
      sums += cosines.colwise().sum().transpose().array();
    }
    return sums / static_cast<double>(unit.rows());
  }

  RkvOptions options_;
};

std::unique_ptr<Policy> make_rkv(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  RkvOptions options;
  options.window = static_cast<int>(read_whole_number(spec, "window", 1, kMost));
  options.kernel = read_kernel(spec);
  options.weight = read_fraction(spec, "weight");
  options.threshold = read_fraction(spec, "threshold");
  return std::make_unique<Rkv>(options);
}

}  // namespace

PolicyDefinition rkv_definition() {
  return {"rkv",
          "what the last queries attend to and few other keys resemble stays (R-KV)",
          {{"window", "1…65536", "8"},
           {"kernel", "1…65536, odd", "7"},
           {"weight", "0…1", "0.1"},
           {"threshold", "0…1", "0.5"}},
          make_rkv};
}

}  // namespace keyscope::analysis
