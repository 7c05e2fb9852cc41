#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"

namespace keyscope::capture {

// Cosines and sines of rotary positions, for the half-split layout of Hugging Face's Llama.
struct RotaryTable {
  at::Tensor cos;  // (n, head_dim)
  at::Tensor sin;  // (n, head_dim)
};

// Rotary position embedding (Su et al., RoFormer, arXiv 2104.09864).
class Rope {
 public:
  explicit Rope(const ModelConfig& config);

  // For the true positions first, first + 1, …, first + n - 1, as `dtype`.
  RotaryTable table(std::int64_t first, std::int64_t n, at::ScalarType dtype) const;

 private:
  at::Tensor inverse_frequency_;  // (head_dim / 2) float32
  double attention_factor_ = 1;
};

// Rotates x: (heads, n, head_dim) by a table of n positions.
at::Tensor rotate(const at::Tensor& x, const RotaryTable& table);

}  // namespace keyscope::capture
