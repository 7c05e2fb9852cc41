#include "capture/kernels/kernels.hpp"

#include <vector>

namespace keyscope::capture::kernels {

Kernels kernels_v2();
Kernels kernels_v3();
Kernels kernels_v4();

namespace {

std::vector<Kernels> find_available() {
  std::vector<Kernels> found{kernels_v2()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    found.push_back(kernels_v3());
  if (found.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    found.push_back(kernels_v4());
  return found;
}

}  // namespace

std::span<const Kernels> available() {
  static const std::vector<Kernels> kFound = find_available();
  return kFound;
}

const Kernels& best() { return available().back(); }

const ElementKernels& of(const Kernels& kernels, at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return kernels.bfloat16;
  return dtype == at::kHalf ? kernels.float16 : kernels.float32;
}

}  // namespace keyscope::capture::kernels
