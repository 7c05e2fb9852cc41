#include "capture/model/transformer.hpp"

#include <algorithm>
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
#include <ATen/ops/index_add.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

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
  add_attention(w, mixed, hidden);
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

// Softmax in float32; equal logits are taken in order of the experts.
Routing Transformer::route(const LayerWeights& w, const at::Tensor& x) const {
  const ExpertsConfig& about = config_.experts;
  at::Tensor product = at::empty({x.size(0), about.n}, x.options());
  multiply(x, w.router, product);
  if (w.router_bias.defined()) product.add_(w.router_bias);
  const at::Tensor logits = product.to(at::kCPU).to(at::kFloat);
  const at::Tensor log_share = at::log_softmax(logits, -1), share = log_share.exp();
  const auto [sorted, order] = logits.sort(true, -1, true);
  Routing routing;
  routing.experts = order.narrow(1, 0, about.per_token).contiguous();
  routing.entropy = (share * log_share).sum(-1).neg();
  if (about.router == ExpertsConfig::Router::kTopThenSoftmax) {
    routing.weights = at::softmax(sorted.narrow(1, 0, about.per_token), -1);
  } else {
    routing.weights = share.gather(1, routing.experts);
    if (about.renormalised) routing.weights = routing.weights / routing.weights.sum(-1, true);
  }
  return routing;
}

Routing Transformer::mix_experts(const LayerWeights& w, const at::Tensor& x, at::Tensor& out) const {
  const Routing routing = route(w, x);
  const std::int64_t n = x.size(0), k = config_.experts.per_token;
  std::vector<std::vector<std::int64_t>> places(config_.experts.n);  // token · k + which of its experts
  const auto* chosen = routing.experts.const_data_ptr<std::int64_t>();
  for (std::int64_t place = 0; place < n * k; ++place) places[chosen[place]].push_back(place);
  for (int expert = 0; expert < config_.experts.n; ++expert)
    if (!places[expert].empty()) w.experts.prefetch(expert);
  at::Tensor sum = at::zeros({n, x.size(1)}, x.options().dtype(at::kFloat));
  const at::Tensor weights = routing.weights.flatten();
  for (int expert = 0; expert < config_.experts.n; ++expert) {
    if (places[expert].empty()) continue;
    const at::Tensor here = at::tensor(places[expert]);
    const at::Tensor tokens = here.div(k, "floor").to(x.device());
    const at::Tensor rows = x.index_select(0, tokens);
    at::Tensor given = at::empty_like(rows);
    feed_forward(w.experts.at(expert), rows, config_.experts.clamp > 0, given);
    const at::Tensor weight = weights.index_select(0, here).to(x.device()).unsqueeze(1);
    sum.index_add_(0, tokens, given.to(at::kFloat).mul_(weight));
  }
  if (w.shared.down.defined()) {
    feed_forward(w.shared, x, false, out);
    at::Tensor shared = out.to(at::kFloat);
    if (w.shared_gate.defined()) {
      at::Tensor gate = at::empty({n, 1}, x.options());
      multiply(x, w.shared_gate, gate);
      shared = shared * gate.to(at::kFloat).sigmoid_();
    }
    sum.add_(shared);
  }
  out.copy_(sum);
  return routing;
}

at::Tensor Transformer::logits(const at::Tensor& hidden) const {
  const at::Tensor& head = weights_.head();
  at::Tensor product = at::empty({hidden.size(0), head.size(0)}, options());
  multiply(normalized(hidden, weights_.final_norm()), head, product);
  at::Tensor logits = product.to(at::kFloat);
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
