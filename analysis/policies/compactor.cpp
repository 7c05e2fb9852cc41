#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include <Eigen/Core>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::analysis {
namespace {

// Φ (d, n_columns): normal numbers of variance 1/n_columns, by Box and Muller's method from draws 2i and
// 2i + 1 of seed 0 for entry i, row after row.
RowMatrixD gaussian_sketch(Eigen::Index d, int n_columns, int layer, int kv_head) {
  RowMatrixD sketch(d, n_columns);
  const auto draw = [&](Eigen::Index i) {
    return uniform_draw(kSketchSeed, layer, kv_head, static_cast<std::int32_t>(i));
  };
  for (Eigen::Index i = 0; i < sketch.size(); ++i)
    sketch.data()[i] = std::sqrt(-2 / static_cast<double>(n_columns) * std::log1p(-draw(2 * i))) *
                       std::cos(2 * std::numbers::pi * draw(2 * i + 1));
  return sketch;
}

class Compactor final : public Policy {
 public:
  //   blend: the weight of geometry; below 0: 1 - N/n
  //   sketch: columns that leverage is taken of; 0: of the keys themselves
  Compactor(int window, double blend, int sketch) : window_(window), blend_(blend), sketch_(sketch) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.values = needs.rotation = true;
    needs.window_queries = window_;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    RowMatrixD keys = unrotated(input.keys, input.positions, *input.rotation);
    keys.rowwise() -= keys.colwise().mean().eval();
    const Eigen::ArrayXd geometry = standardised(leverages_of(keys, input));
    const Eigen::ArrayXd attention = standardised(weighed_attention(input));
    // None of a head that has fewer rows, where all of a layer's are weighed together.
    const double evicted =
        std::max(0.0, 1 - static_cast<double>(input.budget) / static_cast<double>(scores.size()));
    Eigen::Map<Eigen::ArrayXd>(scores.data(), geometry.size()) =
        (blend_ < 0 ? evicted : blend_) * geometry + attention;
  }

 private:
  Eigen::ArrayXd leverages_of(const RowMatrixD& keys, const PolicyInput& input) const {
    if (sketch_ == 0) return leverages(keys, "compactor");
    return leverages(keys * gaussian_sketch(keys.cols(), sketch_, input.layer, input.kv_head), "compactor",
                     kSketchRidge);
  }

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
  int sketch_;
};

std::unique_ptr<Policy> make_compactor(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  const bool by_budget = spec.options.at("blend") == "budget";
  return std::make_unique<Compactor>(static_cast<int>(read_whole_number(spec, "window", 1, kMost)),
                                     by_budget ? -1 : read_fraction(spec, "blend"),
                                     static_cast<int>(read_whole_number(spec, "sketch", 0, kMostSketch)));
}

}  // namespace

PolicyDefinition compactor_definition() {
  return {"compactor",
          "keys of high leverage before rotation that queries attend to stay (Compactor)",
          {{"window", "1…65536", "32"}, {"blend", "budget|0…1", "budget"}, {"sketch", "0…1024", "0"}},
          make_compactor};
}

}  // namespace keyscope::analysis
