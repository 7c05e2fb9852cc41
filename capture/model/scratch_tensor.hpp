#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace keyscope::capture {

// Memory that is used again and again for tensors of changing size.
class ScratchTensor {
 public:
  // (rows, cols), contiguous, its elements undefined; what was given before is invalid then.
  at::Tensor take(std::int64_t rows, std::int64_t cols, const at::TensorOptions& options);

 private:
  at::Tensor memory_;  // of one dimension, as large as the largest so far
};

}  // namespace keyscope::capture
