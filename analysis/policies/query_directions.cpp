#include "analysis/policies/query_directions.hpp"

#include <fmt/format.h>

#include "analysis/pca.hpp"
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

}  // namespace keyscope::analysis
