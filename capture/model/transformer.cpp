#include "capture/model/transformer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tanh.h>

namespace keyscope::capture {

namespace {

// Rows that go through the MLP at once: so many that its weights, which no cache holds, are seldom read
// again; few enough for what lies between its products to take little memory.
constexpr std::int64_t kMlpRows = 2048;

}  // namespace

std::unique_ptr<Transformer> Transformer::make(Arithmetic arithmetic, const ModelConfig& config,
                                               WeightStore weights) {
  if (arithmetic == Arithmetic::kAten) return std::make_unique<AtenTransformer>(config, std::move(weights));
  return std::make_unique<KernelTransformer>(config, std::move(weights));
}

Transformer::Transformer(const ModelConfig& config, WeightStore weights)
    : config_(config),
      weights_(std::move(weights)),
      rope_(config),
      local_rope_(config, config.local_rope_theta > 0) {}

at::Tensor Transformer::embed(std::span<const std::int32_t> ids) const {
  const at::Tensor index =
      at::from_blob(const_cast<std::int32_t*>(ids.data()), {static_cast<std::int64_t>(ids.size())},
                    at::TensorOptions().dtype(at::kInt));
  at::Tensor hidden = at::embedding(weights_.embedding(), index.to(options().device()));
  if (config_.embedding_scale == 1) return hidden;
  if (config_.rounded_embedding_scale)
    hidden.mul_(at::full({}, config_.embedding_scale, hidden.options()));
  else
    hidden.mul_(config_.embedding_scale);
  return hidden;
}

Routing Transformer::finish_layer(const LayerWeights& w, const at::Tensor& mixed, at::Tensor& hidden) const {
  add_attention(w, w.latent.key_up.defined() ? latent_output(w.latent, mixed) : mixed, hidden);
  std::vector<Routing> parts;
  for (std::int64_t row = 0; row < hidden.size(0); row += kMlpRows) {
    at::Tensor rows = hidden.narrow(0, row, std::min(kMlpRows, hidden.size(0) - row));
    parts.push_back(add_mlp(w, rows));
  }
  if (parts.size() == 1 || !parts.front().experts.defined()) return parts.front();
  const auto joined = [&](at::Tensor Routing::*member) {
    std::vector<at::Tensor> tensors;
    for (const Routing& part : parts) tensors.push_back(part.*member);
    return at::cat(tensors);
  };
  return {joined(&Routing::experts), joined(&Routing::weights), joined(&Routing::entropy)};
}

at::Tensor Transformer::product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  multiply(x, weight, out);
  if (bias.defined()) out.add_(bias);
  return out;
}

Projections Transformer::project(const LayerWeights& w, const at::Tensor& hidden) const {
  return config_.latent.rank > 0 ? project_latent(w, hidden) : project_heads(w, hidden);
}

at::Tensor Transformer::logits(const at::Tensor& hidden) const {
  at::Tensor logits = product(normalized(hidden, weights_.final_norm()), weights_.head(), {}).to(at::kFloat);
  if (config_.logit_divisor != 1) logits.div_(config_.logit_divisor);
  if (config_.logit_softcap > 0)
    logits = at::tanh(logits.div_(config_.logit_softcap)).mul_(config_.logit_softcap);
  return logits.to(at::kCPU);
}

void Transformer::wait() const {
  const at::Device device = options().device();
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

}  // namespace keyscope::capture
