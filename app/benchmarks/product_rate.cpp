#include "app/benchmarks/product_rate.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <c10/core/InferenceMode.h>

#include "capture/model/transformer.hpp"

namespace keyscope::benchmarks {

using Clock = std::chrono::steady_clock;

ProductRate::ProductRate(const capture::Model& model, std::int64_t rows) : model_(model) {
  const c10::InferenceMode inference;
  const at::TensorOptions options = model.transformer().options();
  const capture::ModelConfig& config = model.config();
  x_ = at::rand({rows, config.hidden_size}, options);
  weight_ = at::rand({config.intermediate_size, config.hidden_size}, options);
  out_ = at::empty({rows, config.intermediate_size}, options);
}

double ProductRate::measure_gflops() {
  constexpr int kProducts = 5;
  const c10::InferenceMode inference;
  at::set_num_threads(model_.threads());
  const capture::Transformer& transformer = model_.transformer();
  double best = 0;
  for (int i = 0; i <= kProducts; ++i) {
    const auto started = Clock::now();
    transformer.multiply(x_, weight_, out_);
    transformer.wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    const double operations = 2.0 * static_cast<double>(x_.numel()) * static_cast<double>(weight_.size(0));
    if (i > 0) best = std::max(best, operations / seconds / 1e9);  // the first one warms up
  }
  return best;
}

double product_flops_per_token(const capture::ModelConfig& config) {
  const double projections = 2.0 * (config.n_heads + config.n_kv_heads) * config.head_dim;
  const double mlp = 3.0 * static_cast<double>(config.intermediate_size);
  return 2.0 * config.n_layers * static_cast<double>(config.hidden_size) * (projections + mlp);
}

}  // namespace keyscope::benchmarks
