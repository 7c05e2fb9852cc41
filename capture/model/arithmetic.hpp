#pragma once

namespace keyscope::capture {

// Of what a model's layers are computed. The results differ by roundings only.
enum class Arithmetic {
  kKernels,  // our own loops and LibTorch's products, on the CPU
  kAten,     // LibTorch's operations alone, on any device that it knows
};

}  // namespace keyscope::capture
