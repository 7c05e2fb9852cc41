#include "analysis/singular_values.hpp"

#include <algorithm>
#include <vector>

#include <Eigen/SVD>
#include <gtest/gtest.h>

#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd sorted_roots(const RowMatrixF& rows) {
  VectorXd roots = squared_singular_values(rows).cwiseMax(0).cwiseSqrt();
  std::sort(roots.begin(), roots.end(), std::greater<>());
  return roots;
}

TEST(SingularValues, MatchADirectDecomposition) {
  // Well conditioned, where the Gram matrix serves, and over ten decades, where it cannot; tall and wide.
  for (const Index halve_every : {0, 1})
    for (const auto& [n, d] : {std::pair<Index, Index>{90, 30}, {30, 90}, {30, 30}, {1, 8}, {8, 1}}) {
      const RowMatrixF rows = sample_rows(1, n, d, 0.2, halve_every);
      const VectorXd expected = Eigen::BDCSVD<MatrixXd>(MatrixXd(rows.cast<double>())).singularValues();
      const VectorXd found = sorted_roots(rows);
      ASSERT_EQ(found.size(), expected.size());
      for (Index i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 1e-8 * expected[i]) << n << " x " << d << ", value " << i;
    }
}

TEST(SingularValues, SumOfSquaresIsTheFrobeniusNorm) {
  const RowMatrixF rows = sample_rows(2, 300, 20, 0.4);
  EXPECT_NEAR(squared_singular_values(rows).sum(), rows.cast<double>().squaredNorm(), 1e-10);
}

TEST(SingularValues, OfZerosAreZero) { EXPECT_EQ(squared_singular_values(RowMatrixF::Zero(5, 3)).norm(), 0); }

}  // namespace
}  // namespace keyscope::analysis
