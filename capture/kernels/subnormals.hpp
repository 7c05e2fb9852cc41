#pragma once

// Numbers too small for a float32 of full precision, which x86-64 multiplies many times more slowly.

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace keyscope::capture::kernels {

// While it lives, this thread reads subnormal numbers as zeros and writes zeros for them. Weights of
// attention are often as small where a sink takes almost all: next to 1, no sum over values can tell them
// from zero. Elsewhere than on x86-64, where nothing is gained, it does nothing.
class SubnormalsAsZeros {
 public:
#ifdef __SSE2__
  SubnormalsAsZeros() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kZeroOperands); }
  ~SubnormalsAsZeros() { _mm_setcsr(before_); }
#else
  SubnormalsAsZeros() = default;
  ~SubnormalsAsZeros() = default;
#endif
  SubnormalsAsZeros(const SubnormalsAsZeros&) = delete;
  SubnormalsAsZeros& operator=(const SubnormalsAsZeros&) = delete;

 private:
#ifdef __SSE2__
  // Bits of MXCSR (Intel SDM, volume 1, section 10.2.3).
  static constexpr unsigned kFlushResults = 1U << 15U, kZeroOperands = 1U << 6U;
  unsigned before_;
#endif
};

}  // namespace keyscope::capture::kernels
