#pragma once

#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// What the queries of the query heads that share a KV head have in common: its filter (Q-Filters, arXiv
// 2503.02812). Queries may come in any number of parts, of several texts.
class QueryDirections {
 public:
  //   group_size: query heads
  QueryDirections(int group_size, int head_dim);

  // Adds queries of a head of the group, after RoPE: (n, head_dim), finite.
  //   throws InvalidInput where their width is another
  void add(int head_of_group, const MatrixView& queries);

  // (head_dim) f: minus the mean over the group of each head's main right singular vector, of length 1 and
  // not centred, turned so that its mean product with the head's queries is not negative. Where several are
  // the main one, which is taken is arbitrary.
  //   throws InvalidInput where a head has no query but zeros
  Eigen::VectorXd filter() const;

  // The share of the queries' squared lengths that lies along those vectors, mean over the group.
  double share() const;

 private:
  struct Head {
    Eigen::MatrixXd products;  // Σ q qᵀ
    Eigen::VectorXd sum;
  };
  struct Direction {
    Eigen::VectorXd vector;
    double share = 0;
  };
  static Direction direction_of(const Head& head);

  std::vector<Head> heads_;
};

}  // namespace keyscope::analysis
