#include "analysis/policies/qfilters.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/support/goldens.hpp"

namespace keyscope::analysis {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

RowMatrixF queries_of(const json& rows) {
  RowMatrixF queries(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(rows.front().size()));
  for (Eigen::Index i = 0; i < queries.rows(); ++i)
    for (Eigen::Index j = 0; j < queries.cols(); ++j) queries(i, j) = rows[i][j].get<float>();
  return queries;
}

TEST(QueryDirections, GiveTheFiltersOfNumPy) {
  for (const json& golden : read_goldens("../policies/goldens/query_filters.json", "cases")) {
    const std::vector<double> expected = golden.at("filter");
    const json& parts = golden.at("parts");
    const auto group = static_cast<int>(parts.front().size());
    QueryDirections directions(group, static_cast<int>(expected.size()));
    for (const json& part : parts)
      for (int head = 0; head < group; ++head) directions.add(head, queries_of(part.at(head)));
    const Eigen::VectorXd filter = directions.filter();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(filter[static_cast<Eigen::Index>(i)], expected[i], 1e-6)
          << golden.at("name") << ", channel " << i;
    EXPECT_NEAR(directions.share(), golden.at("share").get<double>(), 1e-6) << golden.at("name");
  }
}

// Queries that all point one way are met by keys that point that way: a filter scores by -f·k.
TEST(QueryDirections, PointAwayFromTheQueries) {
  RowMatrixF queries(2, 2);
  queries << 3, 4, 6, 8;
  QueryDirections directions(1, 2);
  directions.add(0, queries);
  EXPECT_NEAR(directions.filter()[0], -0.6, 1e-12);
  EXPECT_NEAR(directions.filter()[1], -0.8, 1e-12);
  EXPECT_NEAR(directions.share(), 1, 1e-12);
}

TEST(QueryDirections, RefuseWhatHasNone) {
  QueryDirections directions(2, 2);
  directions.add(0, RowMatrixF::Ones(3, 2));
  directions.add(1, RowMatrixF::Zero(3, 2));
  EXPECT_THAT([&] { directions.filter(); }, ThrowsMessage<InvalidInput>(HasSubstr("no query but zeros")));
  EXPECT_THAT([&] { directions.add(1, RowMatrixF::Ones(3, 3)); },
              ThrowsMessage<InvalidInput>(HasSubstr("3 numbers a query; expected 2")));
  RowMatrixF broken = RowMatrixF::Ones(1, 2);
  broken(0, 1) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(directions.add(1, broken), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
