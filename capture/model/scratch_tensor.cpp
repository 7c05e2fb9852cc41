#include "capture/model/scratch_tensor.hpp"

#include <ATen/ops/empty.h>

namespace keyscope::capture {

at::Tensor ScratchTensor::take(std::int64_t rows, std::int64_t cols, const at::TensorOptions& options) {
  const std::int64_t n = rows * cols;
  if (!memory_.defined() || memory_.numel() < n || memory_.scalar_type() != options.dtype().toScalarType())
    memory_ = at::empty({n}, options);
  return memory_.narrow(0, 0, n).view({rows, cols});
}

}  // namespace keyscope::capture
