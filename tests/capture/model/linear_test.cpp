#include "capture/model/linear.hpp"

#include <string>
#include <tuple>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace keyscope::capture {
namespace {

// Rows of x, its columns, rows of the weights: few rows and many, odd ones, and weights of several parts.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
using Parameters = std::tuple<at::ScalarType, Shape>;

class Linear : public ::testing::TestWithParam<Parameters> {};

// Half a unit of the last place of the result, and what float32 loses on the way.
double tolerance_of(at::ScalarType type) {
  if (type == at::kBFloat16) return 0x1p-8;
  return type == at::kHalf ? 0x1p-11 : 0;
}

TEST_P(Linear, IsTheProductRoundedOnce) {
  const auto& [type, shape] = GetParam();
  const auto& [n, inner, outer] = shape;
  at::manual_seed(7);
  const at::Tensor x = at::randn({n, inner}).to(type), weight = at::randn({outer, inner}).to(type);
  for (const at::Tensor& bias : {at::Tensor{}, at::randn({outer}).to(type)}) {
    const at::Tensor found = linear(x, weight, bias).to(at::kDouble);
    const at::Tensor wide_x = x.to(at::kDouble), wide_weight = weight.to(at::kDouble);
    at::Tensor expected = wide_x.matmul(wide_weight.t());
    at::Tensor magnitudes = wide_x.abs().matmul(wide_weight.abs().t());
    if (bias.defined()) {
      expected += bias.to(at::kDouble);
      magnitudes += bias.to(at::kDouble).abs();
    }
    const at::Tensor allowed = tolerance_of(type) * 1.01 * expected.abs() + 1e-6 * magnitudes;
    EXPECT_TRUE(((found - expected).abs() <= allowed).all().item<bool>())
        << "largest excess " << ((found - expected).abs() - allowed).max().item<double>();
  }
}

std::string name_of(const ::testing::TestParamInfo<Parameters>& info) {
  const Shape& shape = std::get<1>(info.param);
  return std::string(at::toString(std::get<0>(info.param))) + "_" + std::to_string(std::get<0>(shape)) + "_" +
         std::to_string(std::get<1>(shape)) + "_" + std::to_string(std::get<2>(shape));
}

INSTANTIATE_TEST_SUITE_P(All, Linear,
                         ::testing::Combine(::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                                            ::testing::Values(Shape{1, 64, 100}, Shape{4, 33, 7},
                                                              Shape{5, 33, 7}, Shape{130, 96, 257},
                                                              Shape{6, 20000, 150})),
                         name_of);

}  // namespace
}  // namespace keyscope::capture
