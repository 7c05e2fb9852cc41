#include "capture/inference/layer_arithmetic.hpp"

#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/kernel_arithmetic.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

std::unique_ptr<LayerArithmetic> make_layer_arithmetic(const Transformer& transformer,
                                                       const LayerRows& rows) {
  if (transformer.arithmetic() == Arithmetic::kAten) return std::make_unique<AtenLayer>(transformer, rows);
  return std::make_unique<KernelLayer>(transformer, rows);
}

}  // namespace keyscope::capture
