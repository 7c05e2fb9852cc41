#include <array>
#include <cmath>
#include <complex>
#include <memory>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

// Distances ahead that a row is weighed at: 2^0 … 2^16.
constexpr int kOffsets = 17;

class TriAttention final : public Policy {
 public:
  TriAttention(bool by_mean, bool calibrated) : by_mean_(by_mean), calibrated_(calibrated) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.rotation = true;
    needs.query_moments = !calibrated_;
    return needs;
  }

  HeadFile head_file() const override { return calibrated_ ? HeadFile::kQueryMeans : HeadFile::kNone; }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    Eigen::Map<Eigen::ArrayXd> all(scores.data(), std::ssize(scores));
    const RowMatrixD keys = unrotated(input.keys, input.positions, *input.rotation);
    const Spectrum spectrum(*input.rotation, keys.cols(), input.positions);
    const std::vector<Means> heads = calibrated_ ? means_of_file(input) : means_so_far(input);
    bool first = true;
    for (const Means& head : heads) {
      const Eigen::ArrayXd own = spectrum.scores(keys, head);
      if (!own.allFinite())  // which the larger of two heads' scores may hide
        throw InvalidInput("policy triattention: keys or queries hold NaN or Inf");
      if (by_mean_)
        all = first ? own : Eigen::ArrayXd(all + own);
      else
        all = first ? standardised(own) : Eigen::ArrayXd(all.max(standardised(own)));
      first = false;
    }
    if (by_mean_) all /= static_cast<double>(heads.size());
  }

 private:
  // Of a query head before rotation: E q, and E|q_f| of what turns together and then of what does not turn.
  struct Means {
    Eigen::VectorXd mean, moduli;
  };

  static std::vector<Means> means_so_far(const PolicyInput& input) {
    std::vector<Means> heads;
    for (const QueryMoments& moments : input.query_moments)
      heads.push_back({moments.mean(), moments.mean_moduli()});
    return heads;
  }

  std::vector<Means> means_of_file(const PolicyInput& input) const {
    const auto layer = static_cast<std::size_t>(input.layer);
    const Eigen::Index d = input.keys.cols(), n_moduli = d - input.rotation->n_pairs(), n = d + n_moduli;
    const bool known = layer < file().size() && input.kv_head < file()[layer].rows();
    if (!known || file()[layer].cols() == 0 || file()[layer].cols() % n != 0)
      throw InvalidInput(fmt::format(
          "policy triattention: there are no means of {} and {} numbers for layer {}, KV head {}; "
          "its file is read for a model or a recording",
          d, n_moduli, input.layer, input.kv_head));
    const Eigen::VectorXd all = file()[layer].row(input.kv_head).transpose().cast<double>();
    std::vector<Means> heads;
    for (Eigen::Index first = 0; first < all.size(); first += n)
      heads.push_back({all.segment(first, d), all.segment(first + d, n_moduli)});
    return heads;
  }

  // The mean over the offsets of cos((t + o - p)ω_f + φ) is Re(e^{iφ} W_f(p)), whatever the query head.
  class Spectrum {
   public:
    Spectrum(const Rotation& rotation, Eigen::Index d, std::span<const std::int32_t> positions)
        : rotation_(rotation), d_(d), waves_(std::ssize(positions), rotation.n_pairs()) {
      const double last = positions.back();
      for (Eigen::Index pair = 0; pair < rotation.n_pairs(); ++pair) {
        const double frequency = rotation.frequencies[pair];
        std::complex<double> mean = 0;
        for (int i = 0; i < kOffsets; ++i) mean += std::polar(1.0, std::ldexp(frequency, i));
        mean /= kOffsets;
        for (Eigen::Index row = 0; row < waves_.rows(); ++row)
          waves_(row, pair) = mean * std::polar(1.0, (last - positions[row]) * frequency);
      }
    }

    // Σ_f |E q_f||k_f| cos(…) + Σ_f (E|q_f| - |E q_f|)|k_f|; coordinates that do not turn have one phase.
    Eigen::ArrayXd scores(const RowMatrixD& keys, const Means& head) const {
      const Eigen::VectorXd &mean = head.mean, &moduli = head.moduli;
      Eigen::ArrayXd sums = Eigen::ArrayXd::Zero(keys.rows());
      for (Eigen::Index pair = 0; pair < rotation_.n_pairs(); ++pair) {
        const Eigen::Index a = rotation_.first_of(pair), b = rotation_.second_of(pair);
        const std::complex<double> q(mean[a], mean[b]);
        const double rest = moduli[pair] - std::abs(q);
        for (Eigen::Index row = 0; row < keys.rows(); ++row) {
          const std::complex<double> k(keys(row, a), keys(row, b));
          sums[row] += (q * std::conj(k) * waves_(row, pair)).real() + rest * std::abs(k);
        }
      }
      for (Eigen::Index still = 2 * rotation_.n_pairs(); still < d_; ++still)
        sums += mean[still] * keys.col(still).array() +
                (moduli[still - rotation_.n_pairs()] - std::abs(mean[still])) * keys.col(still).array().abs();
      return sums;
    }

   private:
    const Rotation& rotation_;
    Eigen::Index d_;
    Eigen::MatrixXcd waves_;  // (n_rows, n_pairs)
  };

  bool by_mean_, calibrated_;
};

std::unique_ptr<Policy> make_triattention(const PolicySpec& spec) {
  return std::make_unique<TriAttention>(read_choice(spec, "group", {"max", "mean"}) == 1,
                                        spec.options.at("file") != "none");
}

}  // namespace

PolicyDefinition triattention_definition() {
  return {"triattention",
          "rows that the mean query meets at distances to come, by their phases, stay (TriAttention)",
          {{"group", "max|mean", "max"}, {"file", "none|PATH", "none"}},
          make_triattention};
}

}  // namespace keyscope::analysis
