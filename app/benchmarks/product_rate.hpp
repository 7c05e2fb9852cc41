#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "capture/model/model.hpp"

namespace keyscope::benchmarks {

// What the model's matrix products alone reach: the roof over a prefill. The product is that of the MLP's
// widening, rows × hidden × intermediate, in the model's dtype and with its threads.
class ProductRate {
 public:
  //   model: kept by the caller
  //   rows: tokens of the product; 512 to 1024 are enough for full speed
  ProductRate(const capture::Model& model, std::int64_t rows);

  // 10⁹ operations a second (a multiplication and an addition are two), the best of a few products.
  double measure_gflops();

 private:
  const capture::Model& model_;
  at::Tensor x_, weight_, out_;
};

// Operations of all layers' matrix products per token of a prompt, attention's own not counted.
double product_flops_per_token(const capture::ModelConfig& config);

}  // namespace keyscope::benchmarks
