#include "capture/inference/attention.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

using ::testing::HasSubstr;

struct Shape {
  std::int64_t n_heads, n_kv_heads, n_new, n_rows, head_dim;
};

void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.n_heads << " heads on " << s.n_kv_heads << ", " << s.n_new << " of " << s.n_rows << " rows, d "
       << s.head_dim;
}

at::Tensor filled(std::int64_t heads, std::int64_t rows, std::int64_t columns, unsigned seed) {
  at::Tensor tensor = at::empty({heads, rows, columns}, at::TensorOptions().dtype(at::kFloat));
  float* data = tensor.mutable_data_ptr<float>();
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 1664525U + 1013904223U;
    data[i] = static_cast<float>(state >> 8U) / 8388608.0F - 1;
  }
  return tensor;
}

AttentionInput make_input(const Shape& s) {
  return {filled(s.n_heads, s.n_new, s.head_dim, 1).mul_(3), filled(s.n_kv_heads, s.n_rows, s.head_dim, 2),
          filled(s.n_kv_heads, s.n_rows, s.head_dim, 3)};
}

// The weights of one query head by the definition, in float64: (n_new, n_rows), 0 where not visible.
std::vector<double> softmax_weights(const AttentionInput& input, std::int64_t head) {
  const std::int64_t n_new = input.queries.size(1), n_rows = input.keys.size(1), d = input.keys.size(2);
  const std::int64_t kv_head = head / (input.queries.size(0) / input.keys.size(0));
  const float* q = input.queries.const_data_ptr<float>() + head * n_new * d;
  const float* k = input.keys.const_data_ptr<float>() + kv_head * n_rows * d;
  std::vector<double> weights(static_cast<std::size_t>(n_new * n_rows));
  for (std::int64_t i = 0; i < n_new; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j <= n_rows - n_new + i; ++j) {
      double product = 0;
      for (std::int64_t c = 0; c < d; ++c) product += static_cast<double>(q[i * d + c]) * k[j * d + c];
      const double weight = std::exp(product / std::sqrt(static_cast<double>(d)));
      weights[static_cast<std::size_t>(i * n_rows + j)] = weight;
      sum += weight;
    }
    for (std::int64_t j = 0; j < n_rows; ++j) weights[static_cast<std::size_t>(i * n_rows + j)] /= sum;
  }
  return weights;
}

class Attention : public ::testing::TestWithParam<Shape> {};

TEST_P(Attention, FusedOutputIsTheWeightedMeanOfTheValues) {
  const Shape s = GetParam();
  const AttentionInput input = make_input(s);
  const at::Tensor output = attend(input).output.contiguous();
  for (std::int64_t head = 0; head < s.n_heads; ++head) {
    const auto weights = softmax_weights(input, head);
    const float* v =
        input.values.const_data_ptr<float>() + head / (s.n_heads / s.n_kv_heads) * s.n_rows * s.head_dim;
    for (std::int64_t i = 0; i < s.n_new; ++i)
      for (std::int64_t c = 0; c < s.head_dim; ++c) {
        double expected = 0;
        for (std::int64_t j = 0; j < s.n_rows; ++j)
          expected += weights[static_cast<std::size_t>(i * s.n_rows + j)] * v[j * s.head_dim + c];
        ASSERT_NEAR(output.const_data_ptr<float>()[(head * s.n_new + i) * s.head_dim + c], expected, 1e-6)
            << "head " << head << ", query " << i;
      }
  }
}

TEST_P(Attention, StatisticsOfTheFusedPathAreThoseOfTheFullMatrix) {
  const Shape s = GetParam();
  const AttentionInput input = make_input(s);
  const at::Tensor log_sum_exp = attend(input).log_sum_exp;
  const at::Tensor sums = attention_column_sums(input, log_sum_exp).contiguous();
  const at::Tensor rows = attention_rows(input, log_sum_exp, 0, s.n_new).contiguous();
  const std::int64_t group = s.n_heads / s.n_kv_heads;
  std::vector<double> expected_sums(static_cast<std::size_t>(s.n_kv_heads * s.n_rows));
  for (std::int64_t head = 0; head < s.n_heads; ++head) {
    const auto weights = softmax_weights(input, head);
    const float* found = rows.const_data_ptr<float>() + head * s.n_new * s.n_rows;
    for (std::size_t at = 0; at < weights.size(); ++at) {
      ASSERT_NEAR(found[at], weights[at], 1e-6) << "head " << head;
      const auto row = static_cast<std::int64_t>(at) % s.n_rows;
      expected_sums[static_cast<std::size_t>(head / group * s.n_rows + row)] +=
          weights[at] / static_cast<double>(group);
    }
  }
  for (std::size_t at = 0; at < expected_sums.size(); ++at)
    ASSERT_NEAR(sums.const_data_ptr<double>()[at], expected_sums[at],
                1e-6 * std::max(1.0, expected_sums[at]));
}

// First block, later block, one token, a block of many query tiles, more rows than one tile, odd sizes.
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         ::testing::Values(Shape{4, 2, 7, 7, 8}, Shape{8, 2, 16, 50, 16},
                                           Shape{3, 3, 1, 33, 10}, Shape{2, 1, 300, 300, 4},
                                           Shape{2, 1, 130, 400, 6}, Shape{1, 1, 3, 4200, 4},
                                           Shape{6, 3, 5, 12, 12}, Shape{1, 1, 1, 1, 2}));

TEST(Attention, TheLastRowsAloneAreTheLastRowsOfAll) {
  const AttentionInput input = make_input({4, 2, 9, 20, 8});
  const at::Tensor log_sum_exp = attend(input).log_sum_exp;
  const at::Tensor all = attention_rows(input, log_sum_exp, 0, 9);
  const at::Tensor last = attention_rows(input, log_sum_exp, 6, 3);
  EXPECT_TRUE(last.allclose(all.narrow(1, 6, 3), 1e-6, 1e-7));
}

TEST(Attention, ReadsTheRowsOfACacheWithRoomToSpare) {
  AttentionInput input = make_input({4, 2, 5, 40, 8});
  const AttentionInput part{input.queries, input.keys.narrow(1, 0, 21), input.values.narrow(1, 0, 21)};
  const AttentionInput copy{input.queries, part.keys.clone(), part.values.clone()};
  EXPECT_TRUE(attend(part).output.equal(attend(copy).output));
}

TEST(Attention, SaysWhereANumberIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    for (const char* part : {"queries", "keys", "values"}) {
      AttentionInput input = make_input({2, 1, 4, 9, 4});
      at::Tensor& tensor = part[0] == 'q' ? input.queries : (part[0] == 'k' ? input.keys : input.values);
      tensor.mutable_data_ptr<float>()[tensor.numel() - 2] = bad;
      try {
        attend(input);
        FAIL() << part << " of " << bad << " were accepted";
      } catch (const InvalidInput& error) {
        EXPECT_THAT(error.what(), HasSubstr(part));
      }
    }
}

}  // namespace
}  // namespace keyscope::capture
