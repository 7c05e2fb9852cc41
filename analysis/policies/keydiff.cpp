#include <algorithm>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/quick_cosines.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

enum class Anchor { kMean, kNormalizedMean, kMedian, kPairwise };
enum class Metric { kCosine, kDot, kEuclidean };

class KeyDiff : public Policy {
 public:
  KeyDiff(Anchor anchor, Metric metric, double recent) : anchor_(anchor), metric_(metric), recent_(recent) {}

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const MatrixView& keys = input.keys;
    if (metric_ == Metric::kCosine && anchor_ == Anchor::kMean) return score_by_mean(keys, scores);
    const Eigen::VectorXd anchor = anchor_of(keys);
    if (metric_ == Metric::kEuclidean) return score_by_distance(keys, anchor, scores);
    Eigen::ArrayXd squared_norms(keys.rows());
    row_products(keys, {anchor.data(), static_cast<std::size_t>(anchor.size())}, scores,
                 {squared_norms.data(), scores.size()});
    Eigen::Map<Eigen::ArrayXd> products(scores.data(), keys.rows());
    if (metric_ == Metric::kDot) {
      products = -products;
      return;
    }
    const double anchor_norm = anchor.norm();
    // Eq. 7 needs no n × n cosines: Σ_j cos(k_i, k_j) = k̂_i · Σ_j k̂_j = n ‖a‖ cos(k_i, a), a the mean of k̂.
    const double scale =
        anchor_ == Anchor::kPairwise ? static_cast<double>(scores.size()) * anchor_norm : 1.0;
    const Eigen::ArrayXd norms = squared_norms.sqrt() * anchor_norm;
    products = (norms == 0).select(0.0, -scale * (products / norms));
  }

  void force(const PolicyInput& /*input*/, std::int64_t budget,
             std::span<std::uint8_t> forced) const override {
    force_recent(round_half_up(recent_, budget), budget, forced);
  }

 private:
  Eigen::VectorXd anchor_of(const MatrixView& keys) const {
    switch (anchor_) {
      case Anchor::kMean:
        return mean_row(keys);
      case Anchor::kMedian:
        return median_row(keys);
      case Anchor::kNormalizedMean:
      case Anchor::kPairwise:
        break;
    }
    return normalized_mean_row(keys);
  }

  // What every block of every run waits for: within 12 · 2^-24 of -cos(k, a), which is cos(k, -a).
  static void score_by_mean(const MatrixView& keys, std::span<double> scores) {
    const RowMoments moments = row_moments(keys);
    quick_cosines(keys, moments.inverse_norms, QuickAnchor(-moments.mean), scores);
  }

  // By differences: ‖k‖² - 2 k·a + ‖a‖² would lose the digits of keys close to the anchor.
  static void score_by_distance(const MatrixView& keys, const Eigen::VectorXd& anchor,
                                std::span<double> scores) {
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = (keys.row(static_cast<Eigen::Index>(i)).cast<double>().transpose() - anchor).norm();
  }

  Anchor anchor_;
  Metric metric_;
  double recent_;
};

std::unique_ptr<Policy> make_keydiff(const PolicySpec& spec) {
  const auto anchor =
      static_cast<Anchor>(read_choice(spec, "anchor", {"mean", "normalized-mean", "median", "pairwise"}));
  const auto metric = static_cast<Metric>(read_choice(spec, "metric", {"cosine", "dot", "euclidean"}));
  if (anchor == Anchor::kPairwise && metric != Metric::kCosine)
    throw UsageError(
        fmt::format("policy keydiff: anchor=pairwise (Eq. 7) is defined with metric=cosine only, not {}",
                    spec.options.at("metric")));
  return std::make_unique<KeyDiff>(anchor, metric, read_fraction(spec, "recent"));
}

}  // namespace

PolicyDefinition keydiff_definition() {
  return {"keydiff",
          "keys least similar to the mean key stay (KeyDiff)",
          {{"anchor", "mean|normalized-mean|median|pairwise", "mean"},
           {"metric", "cosine|dot|euclidean", "cosine"},
           {"recent", "0…1", "0"}},
          make_keydiff};
}

namespace {

class Manifold : public Policy {
 public:
  explicit Manifold(Eigen::Index window) : window_(window) {}

  // Windows follow one another from the first row that is there; the last may be short.
  void score(const PolicyInput& input, std::span<double> scores) const override {
    const Eigen::Index n = input.keys.rows(), size = window_ == 0 ? n : window_;
    for (Eigen::Index first = 0; first < n; first += size) {
      const MatrixView keys = input.keys.middleRows(first, std::min(size, n - first));
      const Eigen::VectorXd mean = mean_row(keys);
      for (Eigen::Index row = 0; row < keys.rows(); ++row)
        scores[first + row] = (keys.row(row).cast<double>().transpose() - mean).norm();
    }
  }

 private:
  Eigen::Index window_;
};

std::unique_ptr<Policy> make_manifold(const PolicySpec& spec) {
  return std::make_unique<Manifold>(static_cast<Eigen::Index>(read_whole_number(spec, "window", 0, 1 << 16)));
}

}  // namespace

PolicyDefinition manifold_definition() {
  return {"manifold",
          "keys furthest from the mean key stay (ManifoldKV)",
          {{"window", "0…65536", "0"}},
          make_manifold};
}

}  // namespace keyscope::analysis
