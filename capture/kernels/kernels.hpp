#pragma once

// Loops compiled for each level of x86-64, of which the program takes the best that its processor has.

#include <span>

#include <c10/core/ScalarType.h>

#include "capture/kernels/kernel_table.hpp"

namespace keyscope::capture::kernels {

// Those of the highest level that this processor has.
const Kernels& best();

// All levels that this processor has, ascending.
std::span<const Kernels> available();

// float32, bfloat16 or float16.
const ElementKernels& of(const Kernels& kernels, at::ScalarType dtype);
inline const ElementKernels& of(at::ScalarType dtype) { return of(best(), dtype); }

}  // namespace keyscope::capture::kernels
