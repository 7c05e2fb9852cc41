#include "capture/inference/kv_cache.hpp"

#include <vector>

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

using ::testing::ElementsAre;

// Rows that say where they come from: 100 · head + position, twice.
at::Tensor numbered(std::int64_t n_heads, std::int64_t first, std::int64_t n, at::ScalarType dtype) {
  at::Tensor rows = at::empty({n_heads, n, 2}, at::TensorOptions().dtype(at::kFloat));
  for (std::int64_t h = 0; h < n_heads; ++h)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < 2; ++c)
        rows.mutable_data_ptr<float>()[(h * n + i) * 2 + c] = static_cast<float>(100 * h + first + i);
  return rows.to(dtype);
}

std::vector<float> column(const at::Tensor& rows, std::int64_t head) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows.size(1); ++i) values.push_back(rows[head][i][1].item<float>());
  return values;
}

class KvCacheOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(KvCacheOf, EveryHeadKeepsItsOwnRowsWithTheirTruePositions) {
  KvCache cache(2, 2, 6, GetParam());
  cache.append(numbered(2, 0, 4, GetParam()), numbered(2, 0, 4, GetParam()).neg(), 0);
  for (int head = 0; head < 2; ++head)
    for (std::size_t row = 0; row < 4; ++row) {
      cache.attention_received(head)[row] = static_cast<double>(10 * head) + static_cast<double>(row);
      cache.attention_queries(head)[row] = static_cast<std::int32_t>(row) + 1;
    }
  const std::vector<std::int32_t> first{0, 3}, second{1, 2};
  cache.compact(0, first);
  cache.compact(1, second);
  cache.set_rows(2);
  EXPECT_THAT(cache.positions(0), ElementsAre(0, 3));
  EXPECT_THAT(cache.positions(1), ElementsAre(1, 2));
  EXPECT_THAT(column(cache.keys(), 0), ElementsAre(0, 3));
  EXPECT_THAT(column(cache.keys(), 1), ElementsAre(101, 102));
  EXPECT_THAT(column(cache.values(), 1), ElementsAre(-101, -102));
  EXPECT_THAT(cache.attention_received(1), ElementsAre(11, 12));
  EXPECT_THAT(cache.attention_queries(0), ElementsAre(1, 4));

  cache.append(numbered(2, 4, 3, GetParam()), numbered(2, 4, 3, GetParam()), 4);
  EXPECT_EQ(cache.n_rows(), 5);
  EXPECT_THAT(cache.positions(0), ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(column(cache.keys(), 1), ElementsAre(101, 102, 104, 105, 106));
  EXPECT_THAT(cache.attention_received(0), ElementsAre(0, 3, 0, 0, 0));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KvCacheOf, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

TEST(KvCache, TakesNoMoreRowsThanItWasMadeFor) {
  KvCache cache(1, 2, 3, at::kFloat);
  EXPECT_GE(cache.n_bytes(), 2 * 3 * 2 * 4);
  cache.append(numbered(1, 0, 2, at::kFloat), numbered(1, 0, 2, at::kFloat), 0);
  EXPECT_THROW(cache.append(numbered(1, 2, 2, at::kFloat), numbered(1, 2, 2, at::kFloat), 2), InvalidInput);
  EXPECT_EQ(cache.n_rows(), 2);
}

}  // namespace
}  // namespace keyscope::capture
