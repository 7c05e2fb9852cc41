#include "capture/inference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/capture/inference/arithmetics.hpp"

namespace keyscope::capture {
namespace {

using test::attention_ways;
using test::AttentionCase;
using test::AttentionShape;
using test::AttentionWay;
using ::testing::HasSubstr;

// The weights of one query head by the definition, in float64: (n_new, n_rows of its KV head), 0 where not
// visible. Slow and obvious: what the tiles are held to.
//   sink: gets the weight of each query's sink, 0 where there is none
std::vector<double> softmax_weights(const AttentionCase& c, std::int64_t head,
                                    std::vector<double>* sink = nullptr) {
  const auto kv_head = static_cast<std::size_t>(head / c.input.group_size());
  const HeadRows& rows = c.input.heads[kv_head];
  const std::int64_t n_new = c.shape.n_new, n_rows = rows.n_rows(), d = c.shape.head_dim;
  const at::Tensor q = c.queries[head].to(at::kFloat).contiguous();
  const at::Tensor k = c.keys[static_cast<std::int64_t>(kv_head)]
                           .narrow(0, c.shape.n_rows - n_rows, n_rows)
                           .to(at::kFloat)
                           .contiguous();
  std::vector<double> weights(n_new * n_rows);
  for (std::int64_t i = 0; i < n_new; ++i) {
    const auto own = static_cast<std::size_t>(n_rows - n_new + i);
    const double of_sink = c.shape.sinks ? std::exp(c.sinks.const_data_ptr<float>()[head]) : 0;
    double sum = of_sink;
    for (std::int64_t j = 0; j <= n_rows - n_new + i; ++j) {
      const std::int64_t distance = rows.positions[own] - rows.positions[j];
      if (c.shape.window > 0 && distance >= c.shape.window) continue;
      double score = 0;
      for (std::int64_t x = 0; x < d; ++x)
        score +=
            static_cast<double>(q.const_data_ptr<float>()[i * d + x]) * k.const_data_ptr<float>()[j * d + x];
      score /= std::sqrt(static_cast<double>(d));
      if (c.shape.softcap > 0) score = c.shape.softcap * std::tanh(score / c.shape.softcap);
      sum += weights[i * n_rows + j] = std::exp(score);
    }
    for (std::int64_t j = 0; j < n_rows; ++j) weights[i * n_rows + j] /= sum;
    if (sink != nullptr) sink->push_back(of_sink / sum);
  }
  return weights;
}

// What rounding may do to a weight, relative to it, which is what it does to a score: queries of a case lie
// in
// [-3, 3], keys in [-1, 1], so d products scaled by 1/√d reach 3 √d, and float32 adds them up in whatever
// order the instructions and the alignment of the rows suggest.
double rounding(const AttentionShape& shape) {
  const double root = std::sqrt(static_cast<double>(shape.head_dim));
  return (root + 4) * 3 * root * std::numeric_limits<float>::epsilon() / 2;
}

class Attention : public ::testing::TestWithParam<AttentionShape> {};

TEST_P(Attention, OutputIsTheWeightedMeanOfTheValues) {
  const AttentionCase c(GetParam());
  const AttentionShape& s = c.shape;
  for (const AttentionWay& way : attention_ways()) {
    const at::Tensor output = way.attend(c, {}).output;
    for (std::int64_t head = 0; head < s.n_heads; ++head) {
      const auto weights = softmax_weights(c, head);
      const std::int64_t kv_head = head / c.input.group_size();
      const std::int64_t n_rows = c.input.heads[kv_head].n_rows();
      const float* v =
          c.values.const_data_ptr<float>() + (kv_head * s.n_rows + s.n_rows - n_rows) * s.head_dim;
      for (std::int64_t i = 0; i < s.n_new; ++i)
        for (std::int64_t x = 0; x < s.head_dim; ++x) {
          double expected = 0;
          for (std::int64_t j = 0; j < n_rows; ++j)
            expected += weights[i * n_rows + j] * v[j * s.head_dim + x];
          ASSERT_NEAR(output.const_data_ptr<float>()[(i * s.n_heads + head) * s.head_dim + x], expected,
                      rounding(s))
              << way.name << ", head " << head << ", query " << i;
        }
    }
  }
}

TEST_P(Attention, WeightsAreGivenOfTheHeadsThatAreWanted) {
  const AttentionCase c(GetParam());
  const std::int64_t n_positions = c.positions.front().back() + 1;
  const std::int64_t last = c.shape.n_heads - 1, matrix = c.shape.n_new * n_positions;
  for (const AttentionWay& way : attention_ways()) {
    std::vector<float> all(c.shape.n_heads * matrix), one(matrix);
    AttentionWants wants;
    wants.n_positions = n_positions;
    for (std::int64_t head = 0; head <= last; ++head) wants.weights.push_back(all.data() + head * matrix);
    way.attend(c, wants);
    wants.weights.assign(last + 1, nullptr);
    wants.weights.back() = one.data();
    way.attend(c, wants);
    EXPECT_TRUE(std::ranges::equal(one, std::span(all).last(one.size()))) << way.name;
  }
}

TEST_P(Attention, StatisticsAreThoseOfTheFullMatrix) {
  const AttentionCase c(GetParam());
  const AttentionShape& s = c.shape;
  const std::int64_t n_positions = c.positions.front().back() + 1;
  std::vector<float> all(s.n_heads * s.n_new * n_positions);
  AttentionWants wants{
      .column_sums = true, .entropy = true, .last_row = true, .windows = {3, 1000}, .weights = {}};
  for (std::int64_t head = 0; head < s.n_heads; ++head)
    wants.weights.push_back(all.data() + head * s.n_new * n_positions);
  wants.n_positions = n_positions;
  for (const AttentionWay& way : attention_ways()) {
    std::fill(all.begin(), all.end(), 0.0F);
    const AttentionOutput found = way.attend(c, wants);
    for (std::int64_t head = 0; head < s.n_heads; ++head) {
      const auto at = static_cast<std::size_t>(head);
      const HeadRows& rows = c.input.heads[head / c.input.group_size()];
      std::vector<double> sink;
      const auto weights = softmax_weights(c, head, &sink);
      if (s.sinks) {
        double total = std::accumulate(sink.begin(), sink.end(), 0.0);
        ASSERT_NEAR(found.sink_sums[at], total, rounding(s) * std::max(1.0, total)) << way.name;
        for (const double sum : found.column_sums[at]) total += sum;
        ASSERT_NEAR(total, static_cast<double>(s.n_new), rounding(s) * static_cast<double>(s.n_new));
      }
      for (std::size_t row = 0; row < rows.positions.size(); ++row) {
        double sum = 0, window = 0, last = 0;
        for (std::int64_t i = 0; i < s.n_new; ++i) {
          const double weight = weights[static_cast<std::size_t>(i * rows.n_rows()) + row];
          sum += weight;
          window += i >= s.n_new - 3 ? weight : 0;
          last = weight;
          const std::size_t place =
              static_cast<std::size_t>((head * s.n_new + i) * n_positions + rows.positions[row]);
          ASSERT_NEAR(all[place], weight, rounding(s)) << way.name << ", head " << head;
        }
        const double tolerance = rounding(s) * std::max(1.0, sum);
        ASSERT_NEAR(found.column_sums[at][row], sum, tolerance) << way.name << ", row " << row;
        ASSERT_NEAR(found.window_sums[0][at][row], window, tolerance) << way.name;
        ASSERT_NEAR(found.window_sums[1][at][row], sum, tolerance) << way.name;
        ASSERT_NEAR(found.last_row[at][row], last, rounding(s)) << way.name;
      }
      for (std::int64_t i = 0; i < s.n_new; ++i) {
        double entropy = sink[i] > 0 ? -sink[i] * std::log(sink[i]) : 0;
        for (std::int64_t j = 0; j < rows.n_rows(); ++j)
          if (const double p = weights[i * rows.n_rows() + j]; p > 0) entropy -= p * std::log(p);
        ASSERT_NEAR(found.entropy.const_data_ptr<float>()[head * s.n_new + i], entropy, 3 * rounding(s))
            << way.name;
      }
    }
  }
}

// First block, later block, one token, a block of many query tiles, more rows than one panel, odd sizes,
// windows within and across panels, capped scores, sinks.
INSTANTIATE_TEST_SUITE_P(
    Shapes, Attention,
    ::testing::Values(AttentionShape{4, 2, 7, 7, 8}, AttentionShape{8, 2, 16, 50, 16},
                      AttentionShape{3, 3, 1, 33, 10}, AttentionShape{2, 1, 300, 300, 4},
                      AttentionShape{2, 1, 130, 400, 6}, AttentionShape{1, 1, 3, 4200, 4},
                      AttentionShape{1, 1, 5, 40000, 4}, AttentionShape{6, 3, 5, 12, 12},
                      AttentionShape{1, 1, 1, 1, 2}, AttentionShape{4, 2, 20, 300, 8, 7},
                      AttentionShape{4, 2, 40, 600, 8, 150}, AttentionShape{2, 2, 1, 200, 8, 30},
                      AttentionShape{4, 2, 9, 140, 8, 0, 2}, AttentionShape{4, 2, 2, 140, 8, 50, 1.5},
                      AttentionShape{4, 2, 9, 140, 8, 0, 0, true},
                      AttentionShape{4, 2, 2, 140, 8, 50, 1.5, true},
                      AttentionShape{2, 1, 130, 400, 6, 0, 0, true}));

// Rounding weights and values to eight bits costs about 2^-9 of each; statistics come from the same products
// of rounded queries and keys, and lose nothing more.
TEST(AttentionInTwoBytes, IsThatOfTheRoundedInputs) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const AttentionShape& shape : {AttentionShape{8, 2, 70, 300, 64}, AttentionShape{4, 2, 2, 300, 64},
                                        AttentionShape{4, 4, 33, 33, 12}}) {
      const AttentionCase c(shape, dtype);
      AttentionWants wants;
      wants.column_sums = true;
      for (const AttentionWay& way : attention_ways()) {
        const AttentionOutput found = way.attend(c, wants);
        const at::Tensor output = found.output.to(at::kFloat).contiguous();
        for (std::int64_t head = 0; head < shape.n_heads; ++head) {
          const auto weights = softmax_weights(c, head);
          const std::int64_t kv_head = head / c.input.group_size();
          const std::int64_t n_rows = c.input.heads[kv_head].n_rows();
          const at::Tensor v =
              c.values[kv_head].narrow(0, shape.n_rows - n_rows, n_rows).to(at::kFloat).contiguous();
          for (std::int64_t row = 0; row < n_rows; ++row) {
            double sum = 0;
            for (std::int64_t i = 0; i < shape.n_new; ++i) sum += weights[i * n_rows + row];
            ASSERT_NEAR(found.column_sums[head][row], sum, rounding(shape) * std::max(1.0, sum)) << way.name;
          }
          for (std::int64_t i = 0; i < shape.n_new; ++i) {
            double expected = 0;
            for (std::int64_t j = 0; j < n_rows; ++j)
              expected += weights[i * n_rows + j] * v.const_data_ptr<float>()[j * shape.head_dim];
            ASSERT_NEAR(output.const_data_ptr<float>()[(i * shape.n_heads + head) * shape.head_dim], expected,
                        8e-3)
                << way.name;
          }
        }
      }
    }
}

TEST(Attention, SaysWhereANumberIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    for (const char* part : {"queries", "keys", "values"}) {
      AttentionCase c({2, 1, 4, 9, 4});
      at::Tensor& tensor = part[0] == 'q' ? c.queries : (part[0] == 'k' ? c.keys : c.values);
      tensor.mutable_data_ptr<float>()[tensor.numel() - 2] = bad;
      for (const AttentionWay& way : attention_ways()) try {
          way.attend(c, {});
          FAIL() << part << " of " << bad << " were accepted by " << way.name;
        } catch (const InvalidInput& error) {
          EXPECT_THAT(error.what(), HasSubstr(part));
        }
    }
}

TEST(GroupMean, IsTakenOverTheHeadsThatShareAKvHead) {
  const PerRow<double> heads{{1, 2}, {3, 4}, {5}, {8}};
  EXPECT_EQ(group_mean(heads, 2), (PerRow<double>{{2, 3}, {6.5}}));
}

}  // namespace
}  // namespace keyscope::capture
