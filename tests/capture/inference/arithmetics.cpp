#include "tests/capture/inference/arithmetics.hpp"

#include <cstdlib>

namespace keyscope::test {

std::string name_of(capture::Arithmetic arithmetic) {
  return arithmetic == capture::Arithmetic::kAten ? "Aten" : "Kernels";
}

capture::ModelOptions model_options(capture::Arithmetic arithmetic, capture::DType dtype) {
  const char* device = std::getenv("KEYSCOPE_TEST_DEVICE");
  const bool elsewhere = arithmetic == capture::Arithmetic::kAten && device != nullptr;
  return {.dtype = dtype, .device = elsewhere ? device : "cpu", .arithmetic = arithmetic};
}

}  // namespace keyscope::test
