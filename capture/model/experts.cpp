// Feed-forwards of many parts, of which a router chooses a few for each token.

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>
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
  if (w.expert_scale.defined())
    routing.weights = routing.weights *
                      w.expert_scale.index_select(0, routing.experts.flatten()).view(routing.experts.sizes());
  if (about.weight_scale != 1) routing.weights = routing.weights * about.weight_scale;
  return routing;
}

namespace {

// The largest first, so that none is left for the end that takes long.
std::vector<ExpertGroup> grouped(const Routing& routing, int n_experts) {
  std::vector<ExpertGroup> groups(n_experts);
  const auto* chosen = routing.experts.const_data_ptr<std::int64_t>();
  for (std::int64_t place = 0; place < routing.experts.numel(); ++place)
    groups[chosen[place]].places.push_back(place);
  for (int expert = 0; expert < n_experts; ++expert) groups[expert].expert = expert;
  std::erase_if(groups, [](const ExpertGroup& group) { return group.places.empty(); });
  std::ranges::stable_sort(groups, std::ranges::greater{},
                           [](const ExpertGroup& group) { return group.places.size(); });
  return groups;
}

// Rows of zeros are added to a group's n tokens for oneDNN, so that it meets few numbers of rows.
std::int64_t filled_up(std::int64_t n, const at::Tensor& x) {
  if (n <= kThinRows || !x.is_cpu() || !onednn_multiplies(x.scalar_type())) return n;
  const std::int64_t step = n <= 128 ? 16 : 64;
  return (n + step - 1) / step * step;
}

// Each token's outputs (n · k, D), by its weights (n, k), summed in float32 in order of its choice: (n, D)
at::Tensor weighed(const at::Tensor& given, const at::Tensor& weights) {
  constexpr std::int64_t kTokensAtOnce = 256;
  const std::int64_t n = weights.size(0), k = weights.size(1), width = given.size(1);
  at::Tensor sum = at::empty({n, width}, given.options().dtype(at::kFloat));
  const at::Tensor there = weights.to(given.device());
  for (std::int64_t first = 0; first < n; first += kTokensAtOnce) {
    const std::int64_t count = std::min(kTokensAtOnce, n - first);
    const at::Tensor outputs = given.narrow(0, first * k, count * k).to(at::kFloat).view({count, k, width});
    sum.narrow(0, first, count).copy_((outputs * there.narrow(0, first, count).unsqueeze(2)).sum(1));
  }
  return sum;
}

}  // namespace

void Transformer::run_group(const ExpertWeights& experts, const ExpertGroup& group, const at::Tensor& x,
                            at::Tensor& given) const {
  const at::Tensor places = at::tensor(group.places);
  const at::Tensor tokens = places.div(config_.experts.per_token, "floor").to(x.device());
  const auto n = static_cast<std::int64_t>(group.places.size());
  const at::Tensor rows = at::zeros({filled_up(n, x), x.size(1)}, x.options());
  at::Tensor chosen = rows.narrow(0, 0, n);
  at::index_select_out(chosen, x, 0, tokens);
  at::Tensor out = at::empty_like(rows);
  feed_forward(experts.at(group.expert), rows, config_.experts.clamp > 0, out);
  given.index_copy_(0, places.to(x.device()), out.narrow(0, 0, n));
}

Routing Transformer::mix_experts(const LayerWeights& w, const at::Tensor& x, const at::Tensor& routed,
                                 at::Tensor& out) const {
  const Routing routing = route(w, routed);
  const std::int64_t n = x.size(0), k = config_.experts.per_token;
  const std::vector<ExpertGroup> groups = grouped(routing, config_.experts.n);
  for (const ExpertGroup& group : groups) w.experts.prefetch(group.expert);
  at::Tensor given = at::empty({n * k, x.size(1)}, x.options());
  run_groups(w.experts, groups, x, given);
  at::Tensor sum = weighed(given, routing.weights);
  if (w.shared.down.defined()) {
    feed_forward(w.shared, x, false, out);
    at::Tensor shared = out.to(at::kFloat);
    if (w.shared_gate.defined()) shared.mul_(product(x, w.shared_gate, {}).to(at::kFloat).sigmoid_());
    sum.add_(shared);
  }
  out.copy_(sum);
  return routing;
}

}  // namespace keyscope::capture
