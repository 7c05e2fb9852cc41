#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace keyscope::capture {

// A tensor's elements in order, as float32.
inline std::vector<float> to_floats(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.to(at::kFloat).contiguous();
  const float* data = plain.const_data_ptr<float>();
  return {data, data + plain.numel()};
}

}  // namespace keyscope::capture
