#include "capture/model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

namespace keyscope::capture {

namespace {

// Rows that go through the MLP at once: so many that its weights, which no cache holds, are seldom read
// again; few enough for what lies between its products to take little memory.
constexpr std::int64_t kMlpRows = 2048;

at::Tensor index_of(std::span<const std::int32_t> ids, at::Device device) {
  const at::Tensor index =
      at::from_blob(const_cast<std::int32_t*>(ids.data()), {static_cast<std::int64_t>(ids.size())},
                    at::TensorOptions().dtype(at::kInt));
  return index.to(device);
}

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

analysis::Rotation Transformer::rotation(int layer) const {
  if (!config_.rotates(layer)) return {};
  const at::Tensor frequencies = rope(layer).inverse_frequency(1);
  const float* first = frequencies.const_data_ptr<float>();
  return {{first, first + frequencies.numel()}, config_.interleaved_rotation};
}

at::Tensor Transformer::embed(std::span<const std::int32_t> ids) const {
  at::Tensor hidden = at::embedding(weights_.embedding(), index_of(ids, options().device()));
  if (config_.embedding_scale == 1) return hidden;
  if (config_.rounded_embedding_scale)
    hidden.mul_(at::full({}, config_.embedding_scale, hidden.options()));
  else
    hidden.mul_(config_.embedding_scale);
  return hidden;
}

at::Tensor Transformer::layer_input(int layer, std::span<const std::int32_t> ids) const {
  const std::int64_t size = config_.layer_input.size, first = layer * size;
  if (size == 0) return {};
  const LayerInputWeights& w = weights_.layer_input();
  at::Tensor projected = product(embed(ids), w.projection.narrow(0, first, size), {});
  projected = normalized(projected.div_(std::sqrt(static_cast<double>(config_.hidden_size))), w.norm);
  const at::Tensor looked_up =
      w.table.narrow(1, first, size).index_select(0, index_of(ids, w.table.device())).to(dtype());
  return at_layer(
      layer,
      looked_up.mul_(std::sqrt(static_cast<double>(size))).add_(projected).mul_(std::numbers::sqrt2 / 2));
}

at::Tensor Transformer::activated(const at::Tensor& x) const {
  return config_.activation == HiddenActivation::kSilu ? at::silu(x) : at::gelu(x, "tanh");
}

void Transformer::add_layer_input(const LayerWeights& w, const at::Tensor& layer_input,
                                  at::Tensor& hidden) const {
  const at::Tensor gate = product(hidden, w.input_gate, {}).to(at::kFloat);
  const at::Tensor active = activated(gate).mul_(layer_input).to(dtype());
  hidden.add_(normalized(product(active, w.input_projection, {}), w.input_post_norm));
}

Routing Transformer::feed(const LayerWeights& w, const at::Tensor& hidden, const at::Tensor& x,
                          at::Tensor& out) const {
  if (!w.router.defined()) {
    feed_forward(w.mlp, x, false, out);
    return {};
  }
  if (!config_.experts.beside_dense) return mix_experts(w, x, x, out);
  at::Tensor of_experts = at::empty_like(x);
  Routing routing =
      mix_experts(w, normalized(hidden, w.experts_norm), normalized(hidden, w.router_norm), of_experts);
  feed_forward(w.mlp, x, false, out);
  out.copy_(normalized(out, w.dense_post_norm).add_(normalized(of_experts, w.experts_post_norm)));
  return routing;
}

Routing Transformer::finish_layer(const LayerWeights& w, const at::Tensor& mixed,
                                  const at::Tensor& layer_input, at::Tensor& hidden) const {
  add_attention(w, w.latent.key_up.defined() ? latent_output(w.latent, mixed) : mixed, hidden);
  std::vector<Routing> parts;
  for (std::int64_t row = 0; row < hidden.size(0); row += kMlpRows) {
    at::Tensor rows = hidden.narrow(0, row, std::min(kMlpRows, hidden.size(0) - row));
    parts.push_back(add_mlp(w, rows));
  }
  if (layer_input.defined()) add_layer_input(w, layer_input, hidden);
  if (w.layer_scale.defined()) hidden.mul_(w.layer_scale);
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

std::vector<double> Transformer::value_norms(const LayerWeights& w, int layer, int kv_head,
                                             const at::Tensor& values) const {
  constexpr std::int64_t kRows = 256;  // at once, so that what is made of them takes little memory
  const std::int64_t n_heads = config_.n_heads, group = n_heads / config_.heads(layer).n_kv_heads;
  const std::int64_t width = w.wo.size(1) / n_heads, n = values.size(0);
  std::vector<double> norms(n);
  for (std::int64_t first = 0; first < n; first += kRows) {
    const std::int64_t count = std::min(kRows, n - first);
    at::Tensor heads = values.narrow(0, first, count).unsqueeze(1).expand({count, n_heads, values.size(1)});
    if (w.latent.key_up.defined())
      heads = latent_output(w.latent, heads.flatten(1)).view({count, n_heads, width});
    at::Tensor sums = at::zeros({count}, values.options().dtype(at::kDouble));
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const at::Tensor x = heads.select(1, head).to(at::kFloat).contiguous();
      const at::Tensor projection = w.wo.narrow(1, head * width, width).to(at::kFloat).contiguous();
      sums.add_(product(x, projection, {}).abs_().sum(1, false, at::kDouble));
    }
    sums = sums.div_(static_cast<double>(group)).to(at::kCPU);
    std::copy_n(sums.const_data_ptr<double>(), count, norms.begin() + first);
  }
  return norms;
}

at::Tensor Transformer::logits(const at::Tensor& hidden) const {
  at::Tensor logits = product(normalized(hidden, weights_.final_norm()), weights_.head(), {}).to(at::kFloat);
  if (config_.logit_divisor != 1) logits.div_(config_.logit_divisor);
  if (config_.logit_softcap > 0)
    logits = at::tanh(logits.div_(config_.logit_softcap)).mul_(config_.logit_softcap);
  return logits.to(at::kCPU);
}

void Transformer::wait() const {
  for (const at::Device device : weights_.placement().devices())
    if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

}  // namespace keyscope::capture
