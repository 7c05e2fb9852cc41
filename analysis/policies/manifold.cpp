#include "analysis/policies/manifold.hpp"

#include "analysis/similarity.hpp"

namespace keyscope::analysis {
namespace {

class Manifold : public Policy {
 public:
  void score(const PolicyInput& input, std::span<double> scores) const override {
    const Eigen::VectorXd mean = mean_row(input.keys);
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = (input.keys.row(static_cast<Eigen::Index>(i)).cast<double>().transpose() - mean).norm();
  }
};

std::unique_ptr<Policy> make_manifold(const PolicySpec&) { return std::make_unique<Manifold>(); }

}  // namespace

PolicyDefinition manifold_definition() {
  return {"manifold", "keys furthest from the mean key stay (ManifoldKV)", {}, make_manifold};
}

}  // namespace keyscope::analysis
