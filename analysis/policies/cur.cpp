#include "analysis/policies/cur.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::analysis {
namespace {

class Cur : public Policy {
 public:
  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.values = true;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    if (input.values.rows() != input.keys.rows())
      throw InvalidInput(
          fmt::format("policy cur: {} keys, but {} values", input.keys.rows(), input.values.rows()));
    const Eigen::VectorXd keys = row_norms(input.keys), values = row_norms(input.values);
    Eigen::Map<Eigen::ArrayXd>(scores.data(), input.keys.rows()) = (keys.array() * values.array()).square();
  }
};

std::unique_ptr<Policy> make_cur(const PolicySpec&) { return std::make_unique<Cur>(); }

}  // namespace

PolicyDefinition cur_definition() {
  return {"cur", "rows of large key and value norms stay (CUR)", {}, make_cur};
}

}  // namespace keyscope::analysis
