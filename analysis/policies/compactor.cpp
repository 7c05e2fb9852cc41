#include <algorithm>
#include <memory>

#include <Eigen/Core>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::analysis {
namespace {

class Compactor final : public Policy {
 public:
  //   blend: the weight of geometry; below 0: 1 - N/n
  Compactor(int window, double blend) : window_(window), blend_(blend) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.values = needs.rotation = true;
    needs.window_queries = window_;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    RowMatrixD keys = unrotated(input.keys, input.positions, *input.rotation);
    keys.rowwise() -= keys.colwise().mean().eval();
    const Eigen::ArrayXd geometry = standardised(leverages(keys, "compactor"));
    const Eigen::ArrayXd attention = standardised(weighed_attention(input));
    // None of a head that has fewer rows, where all of a layer's are weighed together.
    const double evicted =
        std::max(0.0, 1 - static_cast<double>(input.budget) / static_cast<double>(scores.size()));
    Eigen::Map<Eigen::ArrayXd>(scores.data(), geometry.size()) =
        (blend_ < 0 ? evicted : blend_) * geometry + attention;
  }

 private:
  // What the window's queries give the rows of a chunk, were these all there is, times ‖v‖; mean over three
  // neighbouring rows.
  Eigen::ArrayXd weighed_attention(const PolicyInput& input) const {
    constexpr Eigen::Index kChunk = 256;
    const RowMatrixD keys = input.keys.cast<double>();
    const Eigen::Index n = keys.rows();
    Eigen::ArrayXd received = Eigen::ArrayXd::Zero(n);
    for (Eigen::Index first = 0; first < n; first += kChunk) {
      const Eigen::Index size = std::min(kChunk, n - first);
      const RowMatrixD products = *input.window_queries * keys.middleRows(first, size).transpose();
      for (Eigen::Index query = 0; query < products.rows(); ++query) {
        const Eigen::ArrayXd e =
            (products.row(query).transpose().array() - products.row(query).maxCoeff()).exp();
        received.segment(first, size) += e / e.sum();
      }
    }
    received *= row_norms(input.values).array() / input.group_size;
    Eigen::ArrayXd pooled = received;
    pooled.head(n - 1) += received.tail(n - 1);
    pooled.tail(n - 1) += received.head(n - 1);
    return pooled / 3;
  }

  int window_;
  double blend_;
};

std::unique_ptr<Policy> make_compactor(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  const bool by_budget = spec.options.at("blend") == "budget";
  return std::make_unique<Compactor>(static_cast<int>(read_whole_number(spec, "window", 1, kMost)),
                                     by_budget ? -1 : read_fraction(spec, "blend"));
}

}  // namespace

PolicyDefinition compactor_definition() {
  return {"compactor",
          "keys of high leverage before rotation that queries attend to stay (Compactor)",
          {{"window", "1…65536", "32"}, {"blend", "budget|0…1", "budget"}},
          make_compactor};
}

}  // namespace keyscope::analysis
