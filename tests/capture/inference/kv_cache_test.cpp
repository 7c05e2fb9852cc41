#include "capture/inference/kv_cache.hpp"

#include <cstring>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

using ::testing::ElementsAre;

// Appends rows that say where they come from, 100 · head + position, to every head; values are their
// negatives.
void append_numbered(KvCache& cache, std::int64_t first, std::int64_t n, at::ScalarType dtype) {
  for (int head = 0; head < cache.n_heads(); ++head) {
    at::Tensor rows = at::empty({n, 2}, at::TensorOptions().dtype(at::kFloat));
    for (std::int64_t i = 0; i < 2 * n; ++i)
      rows.mutable_data_ptr<float>()[i] = static_cast<float>(100 * head + first + i / 2);
    const at::Tensor keys = rows.to(dtype), values = rows.neg().to(dtype);
    const KvCache::NewRows to = cache.append(head, n, first);
    std::memcpy(to.keys, keys.const_data_ptr(), keys.nbytes());
    std::memcpy(to.values, values.const_data_ptr(), values.nbytes());
  }
}

std::vector<float> column(const void* rows, std::size_t n, at::ScalarType dtype) {
  const auto shape = {static_cast<std::int64_t>(n), std::int64_t{2}};
  const at::Tensor tensor =
      at::from_blob(const_cast<void*>(rows), shape, at::TensorOptions().dtype(dtype)).to(at::kFloat);
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(tensor.const_data_ptr<float>()[2 * i + 1]);
  return values;
}

std::vector<float> keys_of(const KvCache& cache, int head, at::ScalarType dtype) {
  const HeadRows rows = cache.rows(head);
  return column(rows.keys, rows.positions.size(), dtype);
}

class KvCacheOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(KvCacheOf, EveryHeadKeepsItsOwnRowsWithTheirTruePositions) {
  const std::vector<std::int64_t> capacities{6, 7};
  KvCache cache(capacities, 2, GetParam());
  append_numbered(cache, 0, 4, GetParam());
  for (int head = 0; head < 2; ++head)
    for (std::size_t row = 0; row < 4; ++row) {
      cache.attention_received(head)[row] = static_cast<double>(10 * head) + static_cast<double>(row);
      cache.attention_queries(head)[row] = static_cast<std::int32_t>(row) + 1;
    }
  const std::vector<std::int32_t> first{0, 3}, second{1, 2, 3};
  cache.retain(0, first);
  cache.retain(1, second);
  EXPECT_THAT(cache.positions(0), ElementsAre(0, 3));
  EXPECT_THAT(cache.positions(1), ElementsAre(1, 2, 3));
  EXPECT_THAT(keys_of(cache, 0, GetParam()), ElementsAre(0, 3));
  EXPECT_THAT(keys_of(cache, 1, GetParam()), ElementsAre(101, 102, 103));
  EXPECT_THAT(column(cache.rows(1).values, 3, GetParam()), ElementsAre(-101, -102, -103));
  EXPECT_THAT(cache.attention_received(1), ElementsAre(11, 12, 13));
  EXPECT_THAT(cache.attention_queries(0), ElementsAre(1, 4));

  append_numbered(cache, 4, 3, GetParam());
  EXPECT_EQ(cache.n_rows(0), 5);
  EXPECT_EQ(cache.largest_rows(), 6);
  EXPECT_THAT(cache.positions(0), ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(keys_of(cache, 1, GetParam()), ElementsAre(101, 102, 103, 104, 105, 106));
  EXPECT_THAT(cache.attention_received(0), ElementsAre(0, 3, 0, 0, 0));

  cache.drop_front(1, 2);
  EXPECT_THAT(cache.positions(1), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(keys_of(cache, 1, GetParam()), ElementsAre(103, 104, 105, 106));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KvCacheOf, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

TEST(KvCache, TakesNoMoreRowsThanItWasMadeFor) {
  const std::vector<std::int64_t> capacities{3};
  KvCache cache(capacities, 2, at::kFloat);
  EXPECT_GE(cache.n_bytes(), 2 * 3 * 2 * 4);
  append_numbered(cache, 0, 2, at::kFloat);
  EXPECT_THROW(cache.append(0, 2, 2), InvalidInput);
  EXPECT_EQ(cache.n_rows(0), 2);
}

}  // namespace
}  // namespace keyscope::capture
