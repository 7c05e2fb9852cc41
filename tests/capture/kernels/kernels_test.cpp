// Every loop, at every level of x86-64 that this processor has and for every element type, against the
// definition in float64.

#include "capture/kernels/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "capture/kernels/subnormals.hpp"

namespace keyscope::capture::kernels {
namespace {

using std::int64_t;

at::Tensor filled(std::initializer_list<int64_t> shape, unsigned seed, float spread, at::ScalarType dtype) {
  at::Tensor tensor = at::empty(at::IntArrayRef(shape), at::TensorOptions().dtype(at::kFloat));
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 1664525U + 1013904223U;
    tensor.mutable_data_ptr<float>()[i] = spread * (static_cast<float>(state >> 8U) / 8388608.0F - 1);
  }
  return tensor.to(dtype);
}

std::vector<double> doubles(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.to(at::kFloat).contiguous();
  return {plain.const_data_ptr<float>(), plain.const_data_ptr<float>() + plain.numel()};
}

class Loops : public ::testing::TestWithParam<std::tuple<std::size_t, at::ScalarType>> {
 protected:
  const Kernels& kernels() const { return available()[std::get<0>(GetParam())]; }
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  const ElementKernels& loops() const { return of(kernels(), dtype()); }
  at::Tensor input(std::initializer_list<int64_t> shape, unsigned seed, float spread = 2) const {
    return filled(shape, seed, spread, dtype());
  }

  // Half a unit in the last place of the element type, and what float32 sums lose.
  double tolerance(double value) const {
    const double step = dtype() == at::kFloat ? 4e-7 : (dtype() == at::kHalf ? 5e-4 : 4e-3);
    return step * std::max(0.25, std::abs(value));
  }
  void expect_near(const at::Tensor& found, const std::vector<double>& expected, double times = 1) const {
    const auto values = doubles(found);
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i], times * tolerance(expected[i]))
          << kernels().level << ", element " << i;
  }
};

TEST_P(Loops, RmsNorm) {
  for (const int64_t cols : {4, 16, 45, 128})
    for (const bool unit_offset : {false, true}) {
      const at::Tensor x = input({3, cols}, 1), w = input({cols}, 2), out = at::empty_like(x);
      loops().rms_norm(
          {x.const_data_ptr(), w.const_data_ptr(), out.mutable_data_ptr(), 3, cols, 1e-5F, unit_offset});
      auto expected = doubles(x);
      const auto weight = doubles(w);
      for (int64_t row = 0; row < 3; ++row) {
        double mean = 0;
        for (int64_t i = 0; i < cols; ++i)
          mean += std::pow(expected[row * cols + i], 2) / static_cast<double>(cols);
        for (int64_t i = 0; i < cols; ++i)
          expected[row * cols + i] *= (unit_offset ? 1 + weight[i] : weight[i]) / std::sqrt(mean + 1e-5);
      }
      expect_near(out, expected, 2);
    }
}

// Of rows of two heads, the second's first coordinates rotate.
TEST_P(Loops, Rotation) {
  for (const bool interleaved : {false, true})
    for (const auto& [head_dim, rotary_dim] : std::vector<std::pair<int64_t, int64_t>>{
             {2, 2}, {12, 12}, {64, 64}, {64, 48}, {20, 6}, {70, 34}, {128, 36}}) {
      const int64_t half = rotary_dim / 2;
      const at::Tensor x = input({5, 2 * head_dim}, 3);
      const at::Tensor cos = filled({5, half}, 4, 1, at::kFloat), sin = filled({5, half}, 5, 1, at::kFloat);
      const at::Tensor out = input({5, head_dim}, 6);
      loops().rotate({static_cast<const char*>(x.const_data_ptr()) + head_dim * x.element_size(),
                      2 * head_dim, cos.const_data_ptr<float>(), sin.const_data_ptr<float>(),
                      out.mutable_data_ptr(), head_dim, 5, head_dim, rotary_dim, interleaved});
      const auto from = doubles(x), c = doubles(cos), s = doubles(sin);
      std::vector<double> expected;
      for (int64_t row = 0; row < 5; ++row)
        for (int64_t i = 0; i < head_dim; ++i) {
          const double* head = from.data() + row * 2 * head_dim + head_dim;
          if (i >= rotary_dim) {
            expected.push_back(head[i]);
            continue;
          }
          const int64_t pair = interleaved ? i / 2 : i % half;
          const bool first = interleaved ? i % 2 == 0 : i < half;
          const double a = head[interleaved ? 2 * pair : pair],
                       b = head[interleaved ? 2 * pair + 1 : pair + half];
          const double cosine = c[row * half + pair], sine = s[row * half + pair];
          expected.push_back(first ? a * cosine - b * sine : b * cosine + a * sine);
        }
      expect_near(out, expected, 2);
    }
}

TEST_P(Loops, GatedActivations) {
  at::Tensor gate = input({100}, 7, 30);
  const at::Tensor up = input({100}, 8);
  const auto g = doubles(gate), u = doubles(up);
  std::vector<double> silu, gelu, clamped;
  for (std::size_t i = 0; i < g.size(); ++i) {
    silu.push_back(g[i] / (1 + std::exp(-g[i])) * u[i]);
    gelu.push_back(0.5 * g[i] * (1 + std::tanh(std::sqrt(2 / M_PI) * (g[i] + 0.044715 * std::pow(g[i], 3)))) *
                   u[i]);
    const double low = std::min(g[i], 0.8), near = std::clamp(u[i], -0.8, 0.8);
    clamped.push_back((near + 1) * low / (1 + std::exp(-1.702 * low)));
  }
  at::Tensor again = gate.clone(), cut = gate.clone();
  loops().gate(gate.mutable_data_ptr(), up.const_data_ptr(), 100, Activation::kSilu, 0);
  expect_near(gate, silu, 3);
  loops().gate(again.mutable_data_ptr(), up.const_data_ptr(), 100, Activation::kGeluTanh, 0);
  expect_near(again, gelu, 3);
  loops().gate(cut.mutable_data_ptr(), up.const_data_ptr(), 100, Activation::kClampedSwiglu, 0.8F);
  expect_near(cut, clamped, 3);
}

TEST_P(Loops, SumAndConversions) {
  const at::Tensor sum = input({37}, 9), other = input({37}, 10);
  auto expected = doubles(sum);
  const auto added = doubles(other);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
  loops().add(sum.mutable_data_ptr(), other.const_data_ptr(), 37);
  expect_near(sum, expected);

  const at::Tensor wide = filled({37}, 11, 100, at::kFloat), narrow = at::empty({37}, sum.options());
  loops().from_float(wide.const_data_ptr<float>(), narrow.mutable_data_ptr(), 37);
  EXPECT_TRUE(narrow.equal(wide.to(dtype()))) << "rounded otherwise than LibTorch rounds";
  std::vector<float> back(37);
  loops().to_float(narrow.const_data_ptr(), back.data(), 37);
  EXPECT_EQ(std::vector<double>(back.begin(), back.end()), doubles(narrow));
}

TEST_P(Loops, WhatIsNotFiniteIsSeenWhereverItIs) {
  for (const int64_t n : {1, 16, 45})
    for (int64_t at = 0; at < n; ++at)
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        const at::Tensor values = input({n}, 12);
        EXPECT_TRUE(loops().all_finite(values.const_data_ptr(), n));
        values[at].fill_(bad);
        EXPECT_FALSE(loops().all_finite(values.const_data_ptr(), n)) << n << ", " << at << ", " << bad;
      }
}

TEST_P(Loops, ThinProducts) {
  for (const int64_t rows : {1, 2, 4, 5})
    for (const auto& [inner, outer] : {std::pair<int64_t, int64_t>{8, 3}, {64, 9}, {150, 21}, {2048, 8}}) {
      const at::Tensor x = filled({rows, inner}, 13, 1, at::kFloat), w = input({outer, inner}, 14, 1);
      at::Tensor y = at::zeros({rows, outer + 1}, at::TensorOptions().dtype(at::kFloat));
      loops().thin_product({x.const_data_ptr<float>(), w.const_data_ptr(), inner, y.mutable_data_ptr<float>(),
                            outer + 1, rows, inner, 1, outer});
      const auto a = doubles(x), b = doubles(w);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = 0; j <= outer; ++j) {
          double expected = 0;
          for (int64_t i = 0; j >= 1 && j < outer && i < inner; ++i)
            expected += a[row * inner + i] * b[j * inner + i];
          ASSERT_NEAR(y[row][j].item<float>(), expected, 1e-4) << kernels().level << ", " << row << ", " << j;
        }
    }
}

// y as it is after columns [first, outer) were multiplied; what lies beside them is left.
at::Tensor multiplied(const Kernels& kernels, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, int64_t first) {
  const auto& loops = of(kernels, x.scalar_type());
  const int64_t rows = x.size(0), inner = x.size(1), outer = weight.size(0), tile = kernels.tile_rows;
  const int64_t n_panels = (rows + tile - 1) / tile;
  std::vector<float> panels(n_panels * inner * tile),
      scratch((outer - first) * (kProductDepth + n_panels * tile), NAN);
  for (int64_t panel = 0; panel < n_panels; ++panel)
    loops.pack_rows(x.select(0, panel * tile).const_data_ptr(), std::min(tile, rows - panel * tile), inner,
                    panels.data() + panel * inner * tile);
  at::Tensor y = at::zeros({rows, outer + 1}, x.options());
  loops.wide_product({panels.data(), weight.const_data_ptr(),
                      bias.defined() ? bias.const_data_ptr() : nullptr, y.mutable_data_ptr(), outer + 1, rows,
                      inner, first, outer, scratch.data()});
  return y;
}

TEST_P(Loops, WideProducts) {
  for (const int64_t rows : {1, 5, 16, 37, 70})
    for (const auto& [inner, outer] : {std::pair<int64_t, int64_t>{8, 3}, {33, 15}, {256, 22}, {600, 30}})
      for (const bool biased : {false, true}) {
        const at::Tensor x = input({rows, inner}, 13, 1), w = input({outer, inner}, 14, 1);
        const at::Tensor bias = biased ? input({outer}, 15) : at::Tensor{};
        const auto a = doubles(x), b = doubles(w);
        std::vector<double> expected(rows * (outer + 1));
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t j = 1; j < outer; ++j) {
            double& sum = expected[row * (outer + 1) + j];
            sum = biased ? bias[j].item<double>() : 0;
            for (int64_t i = 0; i < inner; ++i) sum += a[row * inner + i] * b[j * inner + i];
          }
        const double times = dtype() == at::kFloat ? 200 : 1;  // what 600 terms lose
        expect_near(multiplied(kernels(), x, w, bias, 1), expected, times);
      }
}

TEST_P(Loops, WideProductsOfARowDoNotDependOnOtherRows) {
  const at::Tensor x = input({37, 300}, 13, 1), w = input({20, 300}, 14, 1);
  const at::Tensor all = multiplied(kernels(), x, w, {}, 0);
  for (const int64_t first : {0, 5, 30}) {
    const at::Tensor alone = multiplied(kernels(), x.slice(0, first, first + 7), w, {}, 0);
    EXPECT_TRUE(alone.equal(all.slice(0, first, first + 7))) << kernels().level;
  }
}

TEST_P(Loops, WeightedSums) {
  for (const int64_t n : {1, 2, 33})
    for (const int64_t width : {6, 16, 40}) {
      const at::Tensor weights = filled({3, n + 5}, 15, 1, at::kFloat), rows = input({n, width}, 16);
      at::Tensor out = at::empty({3, width}, at::TensorOptions().dtype(at::kFloat));
      loops().weighted_sum({weights.const_data_ptr<float>(), n + 5, rows.const_data_ptr(),
                            out.mutable_data_ptr<float>(), 3, n, width});
      const auto w = doubles(weights), r = doubles(rows);
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t x = 0; x < width; ++x) {
          double expected = 0;
          for (int64_t j = 0; j < n; ++j) expected += w[i * (n + 5) + j] * r[j * width + x];
          ASSERT_NEAR(out[i][x].item<float>(), expected, 1e-5 * static_cast<double>(n));
        }
    }
}

TEST_P(Loops, TransposedPanelsEndInZeros) {
  const int64_t n = 37, width = 20;
  const at::Tensor rows = input({n, width}, 17);
  std::vector<float> panel(width * kPanel, NAN);
  loops().transpose_panel(rows.const_data_ptr(), n, width, panel.data());
  const auto values = doubles(rows);
  for (int64_t i = 0; i < width; ++i)
    for (int64_t row = 0; row < kPanel; ++row)
      ASSERT_EQ(panel[i * kPanel + row], row < n ? values[row * width + i] : 0);
}

INSTANTIATE_TEST_SUITE_P(Levels, Loops,
                         ::testing::Combine(::testing::Range<std::size_t>(0, available().size()),
                                            ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& test) {
                           std::string level = available()[std::get<0>(test.param)].level;
                           std::replace(level.begin(), level.end(), '-', '_');
                           return level + "_" + c10::toString(std::get<1>(test.param));
                         });

TEST(Panels, AreMultiplied) {
  for (const Kernels& kernels : available())
    for (const int64_t cols : {5, 16, 24, 64, 128})
      for (const bool add : {false, true}) {
        const int64_t rows = 7, inner = 33;
        const at::Tensor a = filled({rows, inner + 2}, 18, 1, at::kFloat),
                         b = filled({inner, cols}, 19, 1, at::kFloat);
        at::Tensor c = filled({rows, cols}, 20, 1, at::kFloat);
        const auto left = doubles(a), right = doubles(b), before = doubles(c);
        kernels.multiply_panel({a.const_data_ptr<float>(), inner + 2, b.const_data_ptr<float>(),
                                c.mutable_data_ptr<float>(), rows, inner, cols, add});
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) {
            double expected = add ? before[i * cols + j] : 0;
            for (int64_t k = 0; k < inner; ++k) expected += left[i * (inner + 2) + k] * right[k * cols + j];
            ASSERT_NEAR(c[i][j].item<float>(), expected, 1e-5) << kernels.level;
          }
      }
}

TEST(Panels, AreSummedByColumnsFromARowOn) {
  constexpr int64_t n_rows = 41, n_panels = 3;
  const at::Tensor weights = filled({n_panels, n_rows, kPanel}, 5, 1, at::kFloat);
  const auto* w = weights.const_data_ptr<float>();
  for (const Kernels& kernels : available())
    for (const int64_t first : {0, 1, 9, 25, 40, 41}) {
      std::vector<double> sums(n_panels * kPanel, 0.5);
      kernels.add_columns({w, n_rows, n_panels, first, sums.data()});
      for (int64_t column = 0; column < n_panels * kPanel; ++column) {
        double expected = 0.5;
        for (int64_t row = first; row < n_rows; ++row)
          expected += static_cast<double>(w[(column / kPanel * n_rows + row) * kPanel + column % kPanel]);
        ASSERT_NEAR(sums[column], expected, 3e-6) << kernels.level << ", " << first;
      }
    }
}

TEST(Panels, ArePairedAlongColumnsAndAlongRows) {
  const int64_t n = 37, width = 12;
  std::vector<std::uint16_t> rows(n * width);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint16_t>(i + 1);
  const auto at = [&](int64_t row, int64_t column) { return row < n ? rows[row * width + column] : 0; };
  for (const Kernels& kernels : available()) {
    std::vector<std::uint16_t> panel(kPanel * width, 0xffff);
    kernels.pair_columns(rows.data(), n, width, panel.data());
    for (int64_t i = 0; i < width; ++i)
      for (int64_t row = 0; row < kPanel; ++row)
        ASSERT_EQ(panel[(i / 2 * kPanel + row) * 2 + i % 2], at(row, i)) << kernels.level;
    std::fill(panel.begin(), panel.end(), 0xffff);
    kernels.pair_rows(rows.data(), n, width, panel.data());
    for (int64_t row = 0; row < kPanel; ++row)
      for (int64_t i = 0; i < width; ++i)
        ASSERT_EQ(panel[(row / 2 * width + i) * 2 + row % 2], at(row, i)) << kernels.level;
  }
}

TEST(Exponentials, AreThoseOfTheLibraryOverTheWholeRange) {
  // A row of two scores, x and 0, has weights 1 / (1 + e^-x) and 1 / (1 + e^x).
  for (const Kernels& kernels : available())
    for (int step = 0; step <= 216; ++step) {
      const float x = -80 + 0.37F * static_cast<float>(step);
      std::vector<float> scores(kPanel);
      scores[0] = x;
      const std::int32_t begin = 0, end = 2;
      float log_sum_exp = 0;
      kernels.float32.softmax({.scores = scores.data(),
                               .n_rows = 1,
                               .n_panels = 1,
                               .begin = &begin,
                               .end = &end,
                               .scale = 1,
                               .softcap = 0,
                               .sink = -std::numeric_limits<float>::infinity(),
                               .weights = nullptr,
                               .log_sum_exp = &log_sum_exp,
                               .entropy = nullptr,
                               .column_sums = nullptr});
      const double weight = 1 / (1 + std::exp(-static_cast<double>(x)));
      ASSERT_NEAR(scores[0], weight, 3e-7 * weight) << kernels.level << ", " << x;
      ASSERT_NEAR(log_sum_exp, std::log1p(std::exp(static_cast<double>(x))), 2e-7);
    }
}

#ifdef __SSE2__
TEST(SubnormalsAsZeros, AreZerosWhileItLivesAndThemselvesAfterwards) {
  const volatile float subnormal = 1e-40F, least = 1e-20F, many = 1e6F;
  {
    const SubnormalsAsZeros faster;
    EXPECT_EQ(subnormal * many, 0);
    EXPECT_EQ(least * least, 0);
    EXPECT_EQ(least * many, 1e-14F);
  }
  EXPECT_GT(subnormal * many, 0);
  EXPECT_GT(least * least, 0);
}
#endif

}  // namespace
}  // namespace keyscope::capture::kernels
