#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "capture/inference/attention.hpp"
#include "capture/model/model.hpp"

namespace keyscope::test {

// The engine's two arithmetics, for tests that both have to pass.
inline auto both_arithmetics() {
  return ::testing::Values(capture::Arithmetic::kKernels, capture::Arithmetic::kAten);
}

// Kernels or Aten: what a test's name says of its parameter.
std::string name_of(capture::Arithmetic arithmetic);
inline std::string arithmetic_name(const ::testing::TestParamInfo<capture::Arithmetic>& test) {
  return name_of(test.param);
}

// A model under one of them, on the CPU; ATen's on the device that KEYSCOPE_TEST_DEVICE names, where it is
// set.
capture::ModelOptions model_options(capture::Arithmetic arithmetic,
                                    capture::DType dtype = capture::DType::kAuto);

struct AttentionShape {
  std::int64_t n_heads, n_kv_heads, n_new, n_rows, head_dim;
  std::int64_t window = 0;
  double softcap = 0;
  bool sinks = false;
};
void PrintTo(const AttentionShape& shape, std::ostream* out);

// Queries and a cache in one dtype, every head with rows of its own: every KV head but the first lacks its
// oldest rows, as heads with budgets of their own do, and positions skip what was evicted.
struct AttentionCase {
  explicit AttentionCase(const AttentionShape& shape, at::ScalarType dtype = at::kFloat);

  AttentionShape shape;
  at::Tensor queries, keys, values;  // (n_heads, n_new, head_dim), (n_kv_heads, n_rows, head_dim) twice
  at::Tensor sinks;                  // (n_heads) float32, where the shape has them
  std::vector<std::vector<std::int32_t>> positions;
  capture::AttentionInput input;

  std::int64_t dropped_rows(std::int64_t head) const;  // oldest ones, which a KV head lacks
};

// A way to compute attention, and what a failure calls it.
struct AttentionWay {
  std::string name;
  std::function<capture::AttentionOutput(const AttentionCase&, const capture::AttentionWants&)> attend;
};

// All of them: by the kernels of every level of x86-64 that this processor has, and by ATen in one tile and
// in tiles of a few queries, which then hold no more than a few rows' keys at once.
std::vector<AttentionWay> attention_ways();

}  // namespace keyscope::test
