// Feed-forwards of many parts, of which a router chooses a few for each token.

#include <cstddef>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

using Router = ExpertsConfig::Router;

// Scores (n, experts) with minus infinity in place of those whose group is not chosen.
at::Tensor in_chosen_groups(const at::Tensor& scores, const ExpertsConfig& about) {
  if (about.chosen_groups == about.n_groups) return scores;
  const at::Tensor groups = scores.unflatten(1, {about.n_groups, -1});
  const std::int64_t counted = about.router == Router::kBiasedSigmoid ? 2 : 1;
  const at::Tensor of_groups = std::get<0>(groups.topk(counted, -1)).sum(-1);
  const at::Tensor chosen = std::get<1>(of_groups.sort(true, -1, true)).narrow(1, 0, about.chosen_groups);
  const at::Tensor left_out = at::ones_like(of_groups, at::kBool).scatter_(1, chosen, false);
  return groups.masked_fill(left_out.unsqueeze(2), -std::numeric_limits<double>::infinity()).flatten(1);
}

}  // namespace

// Shares in float32; equal scores are taken in order of the experts.
Routing Transformer::route(const LayerWeights& w, const at::Tensor& x) const {
  const ExpertsConfig& about = config_.experts;
  const bool sigmoid = about.router == Router::kBiasedSigmoid;
  at::Tensor logits = product(x.to(w.router.scalar_type()), w.router, sigmoid ? at::Tensor() : w.router_bias)
                          .to(at::kCPU)
                          .to(at::kFloat);
  const at::Tensor scores = sigmoid ? logits.sigmoid() : at::softmax(logits, -1);
  const at::Tensor of_all = sigmoid ? scores / scores.sum(-1, true) : scores;
  // Before softmax, which makes equal what is far apart.
  const at::Tensor compared = sigmoid ? scores + w.router_bias.to(at::kCPU) : logits;
  const auto [sorted, order] = in_chosen_groups(compared, about).sort(true, -1, true);
  Routing routing;
  routing.experts = order.narrow(1, 0, about.per_token).contiguous();
  routing.entropy = at::xlogy(of_all, of_all).sum(-1).neg();
  if (about.router == Router::kTopThenSoftmax) {
    routing.weights = at::softmax(sorted.narrow(1, 0, about.per_token), -1);
  } else {
    routing.weights = scores.gather(1, routing.experts);
    if (about.renormalised) routing.weights = routing.weights / (routing.weights.sum(-1, true) + 1e-20);
  }
  if (about.weight_scale != 1) routing.weights = routing.weights * about.weight_scale;
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

}  // namespace keyscope::capture
