#pragma once

#include <ATen/core/Tensor.h>

namespace keyscope::capture {

// out = x weightᵀ + bias. x: (n, in), weight: (out, in), bias: (out) or undefined; out: (n, out), written.
// A few rows are multiplied by a loop of our own that reads the weights once, at the speed of memory; more of
// them by LibTorch, in float32 where the processor multiplies no 16-bit numbers.
void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out);

// The same into a tensor of its own.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace keyscope::capture
