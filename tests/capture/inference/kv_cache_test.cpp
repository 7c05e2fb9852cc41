#include "capture/inference/kv_cache.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/kernel_arithmetic.hpp"
#include "tests/capture/inference/arithmetics.hpp"

namespace keyscope::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// A cache of rows of two elements, of either arithmetic.
class NumberedCache {
 public:
  virtual ~NumberedCache() = default;
  virtual KvCache& cache() = 0;
  // Appends rows that say where they come from, 100 · head + position, to every head; values are their
  // negatives.
  virtual void append(std::int64_t first, std::int64_t n) = 0;
  // The second element of every row of a head.
  virtual std::vector<float> keys(int head) const = 0;
  virtual std::vector<float> values(int head) const = 0;
};

at::Tensor numbered(int head, std::int64_t first, std::int64_t n) {
  at::Tensor rows = at::empty({n, 2}, at::TensorOptions().dtype(at::kFloat));
  for (std::int64_t i = 0; i < n; ++i) rows[i] = std::int64_t{100} * head + first + i;
  return rows;
}

std::vector<float> second_column(const at::Tensor& rows) {
  const at::Tensor column = rows.select(1, 1).to(at::kFloat).contiguous();
  return {column.const_data_ptr<float>(), column.const_data_ptr<float>() + column.numel()};
}

class NumberedKernelCache : public NumberedCache {
 public:
  NumberedKernelCache(const std::vector<std::int64_t>& capacities, at::ScalarType dtype, bool heads_share)
      : dtype_(dtype), cache_(capacities, 2, dtype, {}, nullptr, heads_share) {}

  KvCache& cache() override { return cache_; }
  void append(std::int64_t first, std::int64_t n) override {
    for (int head = 0; head < cache_.n_heads(); ++head) {
      const at::Tensor rows = numbered(head, first, n), keys = rows.to(dtype_),
                       values = rows.neg().to(dtype_);
      const KernelCache::NewRows to = cache_.append(head, n, first);
      std::memcpy(to.keys, keys.const_data_ptr(), keys.nbytes());
      std::memcpy(to.values, values.const_data_ptr(), values.nbytes());
    }
  }
  std::vector<float> keys(int head) const override { return column(cache_.rows(head).keys, head); }
  std::vector<float> values(int head) const override { return column(cache_.rows(head).values, head); }

 private:
  std::vector<float> column(const void* rows, int head) const {
    return second_column(
        at::from_blob(const_cast<void*>(rows), {cache_.n_rows(head), 2}, at::TensorOptions().dtype(dtype_)));
  }

  at::ScalarType dtype_;
  KernelCache cache_;
};

class NumberedAtenCache : public NumberedCache {
 public:
  NumberedAtenCache(const std::vector<std::int64_t>& capacities, at::ScalarType dtype, bool heads_share)
      : cache_(capacities, 2, at::TensorOptions().dtype(dtype), {}, heads_share) {}

  KvCache& cache() override { return cache_; }
  void append(std::int64_t first, std::int64_t n) override {
    std::vector<at::Tensor> rows;
    for (int head = 0; head < cache_.n_heads(); ++head) rows.push_back(numbered(head, first, n));
    const at::Tensor keys = at::stack(rows).to(cache_.keys().scalar_type());
    cache_.append(keys, keys.neg(), first);
  }
  std::vector<float> keys(int head) const override { return column(cache_.keys(), head); }
  std::vector<float> values(int head) const override { return column(cache_.values(), head); }

 private:
  std::vector<float> column(const at::Tensor& rows, int head) const {
    return second_column(rows[head].narrow(0, 0, cache_.n_rows(head)));
  }

  AtenCache cache_;
};

class KvCacheOf : public ::testing::TestWithParam<std::tuple<Arithmetic, at::ScalarType>> {
 protected:
  static std::unique_ptr<NumberedCache> make(const std::vector<std::int64_t>& capacities,
                                             bool heads_share = false) {
    const auto& [arithmetic, dtype] = GetParam();
    if (arithmetic == Arithmetic::kAten)
      return std::make_unique<NumberedAtenCache>(capacities, dtype, heads_share);
    return std::make_unique<NumberedKernelCache>(capacities, dtype, heads_share);
  }
};

TEST_P(KvCacheOf, EveryHeadKeepsItsOwnRowsWithTheirTruePositions) {
  const auto rows = make({6, 7});
  KvCache& cache = rows->cache();
  rows->append(0, 4);
  for (int head = 0; head < 2; ++head)
    for (std::size_t row = 0; row < 4; ++row) {
      cache.attention_received(head)[row] = static_cast<double>(10 * head) + static_cast<double>(row);
      cache.attention_queries(head)[row] = static_cast<std::int32_t>(row) + 1;
    }
  cache.retain({{0, 3}, {1, 2, 3}});
  EXPECT_THAT(cache.positions(0), ElementsAre(0, 3));
  EXPECT_THAT(cache.positions(1), ElementsAre(1, 2, 3));
  EXPECT_THAT(rows->keys(0), ElementsAre(0, 3));
  EXPECT_THAT(rows->keys(1), ElementsAre(101, 102, 103));
  EXPECT_THAT(rows->values(1), ElementsAre(-101, -102, -103));
  EXPECT_THAT(cache.attention_received(1), ElementsAre(11, 12, 13));
  EXPECT_THAT(cache.attention_queries(0), ElementsAre(1, 4));

  rows->append(4, 3);
  EXPECT_EQ(cache.n_rows(0), 5);
  EXPECT_EQ(cache.largest_rows(), 6);
  EXPECT_THAT(cache.positions(0), ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(rows->keys(0), ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(rows->keys(1), ElementsAre(101, 102, 103, 104, 105, 106));
  EXPECT_THAT(cache.attention_received(0), ElementsAre(0, 3, 0, 0, 0));

  cache.retain({{0, 1, 2, 3, 4}, {2, 3, 4, 5}});
  EXPECT_THAT(cache.positions(1), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(rows->keys(0), ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(rows->keys(1), ElementsAre(103, 104, 105, 106));
}

// What is known of the first rows goes with them, and is not taken for that of the next ones.
TEST_P(KvCacheOf, WhatValuesWeighGoesWithItsRows) {
  const auto rows = make({6}), copy = make({6});
  rows->append(0, 4);
  const std::vector<double> norms{0, 1, 2}, last{3, 4};
  rows->cache().add_value_norms(0, norms);
  rows->cache().retain({{0, 2, 3}});
  EXPECT_THAT(rows->cache().value_norms(0), ElementsAre(0, 2));
  rows->append(4, 1);
  rows->cache().add_value_norms(0, last);
  copy->cache().copy_rows(rows->cache());
  rows->cache().retain({{3}});
  EXPECT_THAT(rows->cache().value_norms(0), ElementsAre(4));
  EXPECT_THAT(copy->cache().value_norms(0), ElementsAre(0, 2, 3, 4));
}

TEST_P(KvCacheOf, TakesMemoryAnewWhereItNeedsMoreOrLess) {
  const auto rows = make({3, 4});
  rows->append(0, 3);
  rows->cache().retain({{0, 2}, {1, 2}});
  rows->cache().attention_received(0)[1] = 0.5;
  EXPECT_EQ(rows->cache().capacity(), 3);
  rows->cache().make_room(6);
  EXPECT_EQ(rows->cache().capacity(), 6);
  rows->append(3, 4);
  EXPECT_THAT(rows->keys(0), ElementsAre(0, 2, 3, 4, 5, 6));
  EXPECT_THAT(rows->values(1), ElementsAre(-101, -102, -103, -104, -105, -106));
  EXPECT_THAT(rows->cache().attention_received(0), ElementsAre(0, 0.5, 0, 0, 0, 0));
  const std::int64_t n_bytes = rows->cache().n_bytes();
  rows->cache().retain({{5}, {4, 5}});
  rows->cache().make_room(1);
  EXPECT_EQ(rows->cache().capacity(), 2);
  EXPECT_EQ(rows->cache().n_bytes() * 3, n_bytes);
  EXPECT_THAT(rows->keys(0), ElementsAre(6));
  EXPECT_THAT(rows->keys(1), ElementsAre(105, 106));
}

// Beside a list of what each head should hold. At most 12 rows are kept of three heads, and 4 of each come
// in.
TEST_P(KvCacheOf, HeadsThatShareTheirMemoryMoveAsideForEachOther) {
  const auto rows = make({8, 8, 8}, true);
  std::vector<std::vector<std::int32_t>> expected(3);
  const std::int64_t n_bytes = rows->cache().n_bytes();
  std::mt19937 draw(1);
  std::int64_t most = 0;
  for (std::int32_t first = 0; first < 48; first += 4) {
    rows->cache().share_room(4);
    rows->append(first, 4);
    std::vector<std::pair<int, std::size_t>> all;
    for (int head = 0; head < 3; ++head) {
      for (std::int32_t i = 0; i < 4; ++i) {
        expected[head].push_back(first + i);
        rows->cache().attention_queries(head)[expected[head].size() - 1] = 100 * head + first + i;
      }
      for (std::size_t row = 0; row < expected[head].size(); ++row) all.emplace_back(head, row);
    }
    std::ranges::shuffle(all, draw);
    if (first % 16 > 0)  // one head gets it all
      std::ranges::stable_partition(all, [&](const auto& row) { return row.first == first / 16; });
    all.resize(std::min<std::size_t>(all.size(), 12));
    RetainedRows retained(3);
    for (const auto& [head, row] : all) retained[head].push_back(static_cast<std::int32_t>(row));
    for (auto& of_head : retained) std::ranges::sort(of_head);
    rows->cache().retain(retained);
    for (int head = 0; head < 3; ++head) {
      std::vector<std::int32_t> left, numbers;
      for (const std::int32_t row : retained[head]) left.push_back(expected[head][row]);
      for (const std::int32_t position : left) numbers.push_back(100 * head + position);
      expected[head] = left;
      most = std::max(most, rows->cache().n_rows(head));
      const std::vector<float> keys(numbers.begin(), numbers.end());
      EXPECT_THAT(rows->cache().positions(head), ElementsAreArray(left)) << first;
      EXPECT_THAT(rows->cache().attention_queries(head), ElementsAreArray(numbers)) << first;
      EXPECT_EQ(rows->keys(head), keys) << first;
      for (std::size_t row = 0; row < keys.size(); ++row) EXPECT_EQ(rows->values(head)[row], -keys[row]);
    }
    EXPECT_EQ(rows->cache().n_bytes(), n_bytes);
  }
  EXPECT_GT(most, 8) << "more than an equal share of the memory";
}

TEST_P(KvCacheOf, HeadsThatShareTheirMemoryTakeACopyOfUnequalHeads) {
  const auto rows = make({6, 6}), copy = make({4, 4}, true), small = make({3, 3}, true);
  rows->append(0, 6);
  rows->cache().retain({{1}, {0, 1, 2, 3, 5}});
  copy->append(0, 3);  // what was there goes
  copy->cache().copy_rows(rows->cache());
  copy->cache().share_room(1);
  copy->append(6, 1);
  EXPECT_THAT(copy->keys(0), ElementsAre(1, 6));
  EXPECT_THAT(copy->keys(1), ElementsAre(100, 101, 102, 103, 105, 106));
  EXPECT_THAT(copy->values(1), ElementsAre(-100, -101, -102, -103, -105, -106));
  copy->cache().share_room(1);
  EXPECT_THROW(copy->append(7, 1), InvalidInput);
  rows->append(6, 1);
  EXPECT_THROW(small->cache().copy_rows(rows->cache()), InvalidInput);
}

// As where a window of one row has passed.
TEST_P(KvCacheOf, AHeadMayKeepNothing) {
  const auto rows = make({4, 4});
  rows->append(0, 2);
  rows->cache().retain({{}, {1}});
  EXPECT_EQ(rows->cache().n_rows(0), 0);
  rows->cache().retain({{}, {}});
  rows->append(2, 2);
  EXPECT_THAT(rows->keys(1), ElementsAre(102, 103));
}

TEST_P(KvCacheOf, TakesNoMoreRowsThanItWasMadeFor) {
  const auto rows = make({3});
  EXPECT_GE(rows->cache().n_bytes(), 2 * 3 * 2 * 2);
  rows->append(0, 2);
  EXPECT_THROW(rows->append(2, 2), InvalidInput);
  EXPECT_EQ(rows->cache().n_rows(0), 2);
}

TEST_P(KvCacheOf, ACopyGoesOnByItself) {
  const auto rows = make({6, 6}), copy = make({4, 9});
  rows->append(0, 5);
  rows->cache().retain({{1, 3, 4}, {0, 2}});
  rows->cache().attention_received(0)[2] = 0.5;
  rows->cache().attention_queries(1)[1] = 7;
  copy->append(0, 4);  // what was there goes
  copy->cache().copy_rows(rows->cache());
  EXPECT_THAT(copy->keys(0), ElementsAre(1, 3, 4));
  EXPECT_THAT(copy->values(1), ElementsAre(-100, -102));
  EXPECT_THAT(copy->cache().positions(0), ElementsAre(1, 3, 4));
  EXPECT_EQ(copy->cache().attention_received(0)[2], 0.5);
  EXPECT_EQ(copy->cache().attention_queries(1)[1], 7);
  copy->append(5, 1);
  EXPECT_THAT(copy->keys(1), ElementsAre(100, 102, 105));
  EXPECT_THAT(rows->keys(1), ElementsAre(100, 102));
}

TEST_P(KvCacheOf, ACopyNeedsRoomForTheRows) {
  const auto rows = make({6}), small = make({4});
  rows->append(0, 5);
  EXPECT_THROW(small->cache().copy_rows(rows->cache()), InvalidInput);
}

INSTANTIATE_TEST_SUITE_P(Rows, KvCacheOf,
                         ::testing::Combine(test::both_arithmetics(),
                                            ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf)));

}  // namespace
}  // namespace keyscope::capture
