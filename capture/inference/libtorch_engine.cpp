#include "capture/inference/libtorch_engine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include "capture/inference/attention.hpp"
#include "capture/inference/eviction.hpp"
#include "capture/model/products.hpp"
#include "capture/model/rope.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

RotaryAngles LibTorchEngine::rotary_angles(const ModelConfig& config, std::int64_t n) const {
  const RotaryTable table = Rope(config).table(0, n);
  const auto values = [](const at::Tensor& of) {
    const auto* data = of.const_data_ptr<float>();
    return std::vector<float>(data, data + of.numel());
  };
  return {values(table.cos), values(table.sin)};
}

namespace {

// What benchmarks set against a prefill.
class LibTorchProductTimer final : public ProductTimer {
 public:
  LibTorchProductTimer(const Model& model, std::int64_t rows) : model_(model) {
    const c10::InferenceMode inference;
    const at::TensorOptions options = model.transformer().options();
    const ModelConfig& config = model.config();
    x_ = at::rand({rows, config.hidden_size}, options);
    const std::int64_t width = feed_forward_size(config);
    weight_ = at::rand({width, config.hidden_size}, options);
    out_ = at::empty({rows, width}, options);
  }

  double measure_seconds() override {
    const c10::InferenceMode inference;
    at::set_num_threads(model_.threads());
    const Transformer& transformer = model_.transformer();
    const auto started = std::chrono::steady_clock::now();
    transformer.multiply(x_, weight_, out_);
    transformer.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  }

  double multiply_adds() const override {
    return static_cast<double>(x_.numel()) * static_cast<double>(weight_.size(0));
  }

 private:
  const Model& model_;
  at::Tensor x_, weight_, out_;
};

// This thread's processor time: what others do on the machine is not in it.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::unique_ptr<ProductTimer> LibTorchEngine::product_timer(const Model& model, std::int64_t rows) const {
  return std::make_unique<LibTorchProductTimer>(model, rows);
}

double LibTorchEngine::statistics_seconds(const AttentionTiming& attention,
                                          const analysis::PolicyNeeds& needs) const {
  if (!needs.attention()) return 0;
  const c10::InferenceMode inference;
  at::set_num_threads(1);
  AttentionInput input;
  const std::int64_t head_dim = attention.keys.cols();
  input.queries = at::randn({attention.group_size, attention.block, head_dim});
  input.heads = {{attention.keys.data(), attention.values.data(), attention.positions}};
  input.rules.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const auto measure = [&](const AttentionWants& wants) {
    const double started = thread_seconds();
    attend(input, wants);
    return thread_seconds() - started;
  };
  // Several of each, in turn: the least is free of most of what caches and clocks do.
  constexpr int kRounds = 4;
  const AttentionWants wants = attention_wants(needs);
  double with = measure(wants), without = measure({});
  for (int i = 1; i < kRounds; ++i)
    with = std::min(with, measure(wants)), without = std::min(without, measure({}));
  return std::max(0.0, with - without);
}

}  // namespace keyscope::capture

extern "C" const keyscope::capture::Engine* keyscope_engine() {
  static const keyscope::capture::LibTorchEngine engine;
  return &engine;
}
