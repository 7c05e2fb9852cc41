#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"
#include "capture/model/rotary_frequencies.hpp"

namespace keyscope::capture {

// Cosines and sines of rotary positions, by pairs of coordinates that rotate together.
struct RotaryTable {
  at::Tensor cos;  // (n, rotary_dim / 2) float32
  at::Tensor sin;  // (n, rotary_dim / 2) float32
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

  // A table of (…, n, rotary_dim / 2) as queries at the true positions first, first + 1, … take it: those of
  // some models grow with their position (which rotate all coordinates of a head).
  RotaryTable query_table(const RotaryTable& table, std::int64_t first) const;

  // (rotary_dim / 2) float32, of a text of this length.
  at::Tensor inverse_frequency(std::int64_t length) const;

 private:
  RotaryFrequencies frequencies_;
  double attention_factor_;
  double query_growth_, query_growth_length_;
};

// The rotation of whole heads on any device: x cos + partner(x) sin.
struct HeadRotation {
  at::Tensor cos, sin;  // (…, n, head_dim) float32: 1 and 0 of coordinates that do not turn
  at::Tensor partner;   // (head_dim) int64: the coordinate that each turns with, or itself

  // x (…, n, head_dim), rotated in float32 and rounded once.
  at::Tensor operator()(const at::Tensor& x) const;
};

//   table: (…, n, rotary_dim / 2); interleaved: coordinates 2i and 2i + 1 turn together, not i and
//   rotary_dim / 2 + i
HeadRotation head_rotation(const RotaryTable& table, std::int64_t head_dim, bool interleaved,
                           at::Device device);

}  // namespace keyscope::capture
