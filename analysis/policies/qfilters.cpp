#include "analysis/policies/qfilters.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "analysis/pca.hpp"
#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

QueryDirections::QueryDirections(int group_size, int head_dim)
    : heads_(group_size, Head{Eigen::MatrixXd::Zero(head_dim, head_dim), Eigen::VectorXd::Zero(head_dim)}) {}

void QueryDirections::add(int head_of_group, const MatrixView& queries) {
  Head& head = heads_.at(head_of_group);
  if (queries.cols() != head.sum.size())
    throw InvalidInput(fmt::format("directions of queries: {} numbers a query; expected {}", queries.cols(),
                                   head.sum.size()));
  require_finite(queries, "queries");
  const RowMatrixD wide = queries.cast<double>();
  head.products.noalias() += wide.transpose() * wide;
  head.sum += wide.colwise().sum().transpose();
}

// A right singular vector of all queries as rows is an eigenvector of the sum of their products.
QueryDirections::Direction QueryDirections::direction_of(const Head& head) {
  const double all = head.products.trace();
  if (!(all > 0)) throw InvalidInput("directions of queries: a head has no query but zeros");
  const Eigenpairs main = leading_eigenpairs(head.products, 1);
  const Eigen::VectorXd vector = main.vectors.col(0).normalized();
  return {vector.dot(head.sum) < 0 ? Eigen::VectorXd(-vector) : vector, main.values[0] / all};
}

Eigen::VectorXd QueryDirections::filter() const {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(heads_.front().sum.size());
  for (const Head& head : heads_) sum -= direction_of(head).vector;
  return sum / static_cast<double>(heads_.size());
}

double QueryDirections::share() const {
  double sum = 0;
  for (const Head& head : heads_) sum += direction_of(head).share;
  return sum / static_cast<double>(heads_.size());
}

namespace {

class QFilters final : public Policy {
 public:
  HeadFile head_file() const override { return HeadFile::kVectors; }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const Eigen::VectorXd filter = filter_of(input);
    Eigen::Map<Eigen::VectorXd>(scores.data(), input.keys.rows()).noalias() =
        input.keys.cast<double>() * -filter;
  }

 private:
  Eigen::VectorXd filter_of(const PolicyInput& input) const {
    const auto layer = static_cast<std::size_t>(input.layer);
    const bool known = layer < file().size() && input.kv_head < file()[layer].rows();
    if (!known || file()[layer].cols() != input.keys.cols())
      throw InvalidInput(
          fmt::format("policy qfilters: there is no filter of {} numbers for layer {}, KV head {}; its file "
                      "is read for a model or a recording",
                      input.keys.cols(), input.layer, input.kv_head));
    return file()[layer].row(input.kv_head).transpose().cast<double>();
  }
};

}  // namespace

PolicyDefinition qfilters_definition() {
  return {"qfilters",
          "keys that point where the head's queries do stay, by a calibrated filter (Q-Filters)",
          {{"file", "PATH", "", true}},
          [](const PolicySpec&) -> std::unique_ptr<Policy> { return std::make_unique<QFilters>(); }};
}

}  // namespace keyscope::analysis
