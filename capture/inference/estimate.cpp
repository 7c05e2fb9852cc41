// What a capture will cost.

#include <algorithm>
#include <chrono>

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <c10/core/InferenceMode.h>

#include "capture/inference/capture.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/model/linear.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {
namespace {

// Multiply-adds per second of a product as a block makes them, measured for a few hundredths of a second.
double measured_rate(const Model& model, std::int64_t block) {
  const c10::InferenceMode inference;
  at::set_num_threads(model.threads());
  const ModelConfig& config = model.config();
  const std::int64_t rows = std::min<std::int64_t>(block, 256);
  const Transformer& transformer = model.transformer();
  const at::TensorOptions options = transformer.options();
  const at::Tensor x = at::rand({rows, config.hidden_size}, options);
  const at::Tensor w = at::rand({config.intermediate_size, config.hidden_size}, options);
  const auto multiply = [&] { return x.is_cpu() ? linear(x, w, at::Tensor{}) : at::linear(x, w); };
  multiply();
  transformer.wait();
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  std::int64_t n_products = 0;
  double elapsed = 0;
  while (elapsed < 0.02) {
    multiply();
    transformer.wait();
    ++n_products;
    elapsed = std::chrono::duration<double>(Clock::now() - started).count();
  }
  return static_cast<double>(n_products * rows * config.hidden_size * config.intermediate_size) / elapsed;
}

// In float64: exact as far as any disk reaches, and without overflow beyond.
double disk_bytes(const recording::RecordPlan& plan) {
  const recording::ModelInfo& model = plan.model;
  const double width = plan.store == recording::StoreType::kFloat16 ? 2 : 4;
  const double rows = (plan.keys ? plan.n_row_kv_heads() : 0) + (plan.queries ? plan.n_row_heads() : 0) +
                      (plan.values ? plan.n_row_kv_heads() : 0);
  constexpr double kStatisticsBytes = 4 + 4 + 8 + 4 + 4 + 24;  // per token and KV head, with the journal
  double bytes = 0;
  for (const auto& run : plan.runs) {
    const auto n_tokens = static_cast<double>(run.max_tokens(plan.n_prompt()));
    double layer = n_tokens * (rows * model.head_dim * width + model.n_kv_heads * kStatisticsBytes);
    if (plan.attention) layer += plan.n_row_heads() * n_tokens * n_tokens * width;
    bytes += layer * static_cast<double>(plan.layers.size());
    if (plan.logits)
      bytes += 4.0 * static_cast<double>(std::min(plan.score_last, plan.n_prompt())) *
               static_cast<double>(plan.vocab_size);
  }
  return bytes;
}

}  // namespace

CaptureEstimate estimate_capture(const Model& model, const recording::RecordPlan& plan) {
  const ModelConfig& config = model.config();
  const Arithmetic arithmetic = model.transformer().arithmetic();
  CaptureEstimate estimate;
  estimate.disk_bytes = whole_bytes(disk_bytes(plan));
  estimate.weight_bytes = model.weight_bytes();
  const std::int64_t width = model.dtype_name() == "float32" ? 4 : 2;
  const double layer_products =
      static_cast<double>(config.hidden_size) *
      static_cast<double>(2 * (config.n_heads + config.n_kv_heads) * config.head_dim +
                          3 * config.intermediate_size);
  double products = 0;
  for (const auto& run : plan.runs) {
    const std::int64_t n_tokens = run.max_tokens(plan.n_prompt());
    const std::int64_t rows = cache_rows(config, run, plan.n_prompt(), 0, run.budget > 0).front();
    estimate.cache_bytes =
        std::max(estimate.cache_bytes, memory_need(config, plan, run, width, arithmetic).cache_bytes);
    // Attention and its statistics: scores twice and values once, over half the rows while the cache fills.
    const double attention =
        3.0 * static_cast<double>(rows) * config.n_heads * config.head_dim * (run.budget > 0 ? 1.0 : 0.5);
    products += static_cast<double>(n_tokens) * config.n_layers * (layer_products + attention);
  }
  constexpr double kDiskBytesPerSecond = 500e6;
  estimate.seconds = products / measured_rate(model, plan.runs.front().block_size) +
                     static_cast<double>(estimate.disk_bytes) / kDiskBytesPerSecond;
  return estimate;
}

}  // namespace keyscope::capture
