#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"

namespace keyscope::capture {

// Cosines and sines of rotary positions, for the half-split layout of Hugging Face's Llama.
struct RotaryTable {
  at::Tensor cos;  // (n, head_dim / 2) float32
  at::Tensor sin;  // (n, head_dim / 2) float32
};

// Rotary position embedding (Su et al., RoFormer, arXiv 2104.09864).
class Rope {
 public:
  // local: the frequencies of layers with a sliding window, where a family has others for them
  explicit Rope(const ModelConfig& config, bool local = false);

  // For the true positions first, first + 1, …, first + n - 1. Where frequencies depend on the length seen
  // (dynamic RoPE, LongRoPE), it is first + n: a block's tokens are rotated by what had been read with its
  // last one, and keys keep that rotation. This is what Transformers does when a prompt is fed to it in these
  // blocks; past the original context, keys therefore depend on the block size.
  RotaryTable table(std::int64_t first, std::int64_t n) const;

 private:
  at::Tensor inverse_frequency(std::int64_t length) const;  // (head_dim / 2) float32

  RopeScaling scaling_;
  double theta_;
  at::Tensor exponent_;                // (head_dim / 2) float32: 2i / head_dim
  at::Tensor inverse_frequency_;       // up to the original context
  at::Tensor long_inverse_frequency_;  // kLongRope: past it
};

}  // namespace keyscope::capture
