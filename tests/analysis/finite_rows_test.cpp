#include "analysis/finite_rows.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FiniteRows, NamesTheFirstOffender) {
  RowMatrixF rows = RowMatrixF::Constant(3, 40, std::numeric_limits<float>::max());
  rows(0, 0) = -std::numeric_limits<float>::max();
  EXPECT_NO_THROW(require_finite(rows, "keys"));
  rows(2, 39) = -std::numeric_limits<float>::infinity();
  EXPECT_THAT([&] { require_finite(rows, "keys"); },
              ThrowsMessage<InvalidInput>(HasSubstr("keys: row 2, column 39 is -inf")));
  rows(1, 5) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT([&] { require_finite(rows, "keys"); },
              ThrowsMessage<InvalidInput>(HasSubstr("row 1, column 5 is nan")));
  EXPECT_NO_THROW(require_finite(RowMatrixF(0, 3), "keys"));
}

}  // namespace
}  // namespace keyscope::analysis
