#pragma once

#include <string>

#include <gtest/gtest.h>

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

}  // namespace keyscope::test
