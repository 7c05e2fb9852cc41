#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/model/config.hpp"

namespace keyscope::capture {

// base to the power of each exponent, in float32. Of one power in a hundred LibTorch's and the C library's
// last bits differ.
using Powers = std::vector<float> (*)(double base, std::span<const float> exponents);
std::vector<float> library_powers(double base, std::span<const float> exponents);

// The angles per position by which pairs of a head's coordinates turn (RoPE, arXiv 2104.09864), in float32,
// operation by operation as Transformers computes them: at position 10,000 one rounding of a frequency is
// already a visible angle. A model takes LibTorch's powers; what reads recordings does without.
class RotaryFrequencies {
 public:
  // local: those of layers with a sliding window, where a family has others for them
  explicit RotaryFrequencies(const ModelConfig& config, bool local = false, Powers powers = library_powers);

  // (rotary_dim / 2), of a text of this length: dynamic RoPE and LongRoPE have others past the original
  // context.
  std::vector<float> of(std::int64_t length) const;

 private:
  std::vector<float> of_grown_theta(std::int64_t length) const;

  RopeScaling scaling_;
  double theta_;
  Powers powers_;
  std::vector<float> exponents_;  // 2i / rotary_dim
  std::vector<float> usual_;      // up to the original context
  std::vector<float> long_;       // kLongRope: past it
};

}  // namespace keyscope::capture
