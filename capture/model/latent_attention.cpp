// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, Section 2.1): see LatentConfig.

#include <algorithm>
#include <cstdint>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

using std::int64_t;

// The latents' norms keep their class's epsilon, whatever the configuration says of the others.
constexpr double kLatentEpsilon = 1e-6;

at::Tensor latent_norm(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, true) + kLatentEpsilon);
  return (wide * scale).to(x.scalar_type()) * weight;
}

// Every head's vectors through its own matrix, in float32 and rounded once, some tokens at a time.
//   x: (n, H, in); weight: (H, in, out); out: (n, H, out), written
void multiply_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out) {
  constexpr int64_t kElementsAtOnce = int64_t{1} << 22;
  const int64_t n = x.size(0);
  const int64_t at_once =
      std::max<int64_t>(1, kElementsAtOnce / (x.size(1) * (weight.size(1) + weight.size(2))));
  const at::Tensor wide = weight.to(at::kFloat);
  for (int64_t first = 0; first < n; first += at_once) {
    const int64_t count = std::min(at_once, n - first);
    const at::Tensor rows = x.narrow(0, first, count).transpose(0, 1).to(at::kFloat);
    out.narrow(0, first, count).copy_(at::bmm(rows, wide).transpose(0, 1));
  }
}

}  // namespace

Projections Transformer::project_latent(const LayerWeights& layer, const at::Tensor& hidden) const {
  const LatentConfig& about = config_.latent;
  const LatentWeights& w = layer.latent;
  const int64_t n = hidden.size(0), n_heads = config_.n_heads, head_dim = config_.head_dim;
  const int64_t rotated = about.rotated_dim, plain = about.plain_dim, value = about.value_dim;
  const at::Tensor x = normalized(hidden, layer.attention_norm);
  at::Tensor queries = x;
  if (w.query_down.defined())
    queries = latent_norm(product(x, w.query_down, w.query_down_bias), w.query_norm);
  queries = product(queries, w.query_up, {}).view({n, n_heads, plain + rotated});
  const at::Tensor cached = product(x, w.key_down, w.key_down_bias);
  const at::Tensor latent = latent_norm(cached.narrow(1, 0, about.rank), w.key_norm);
  const at::Tensor turning = cached.narrow(1, about.rank, rotated);
  const at::Tensor placed = at::empty({n, n_heads, head_dim}, x.options());
  placed.narrow(2, 0, rotated).copy_(queries.narrow(2, plain, rotated));
  const at::Tensor rest = placed.narrow(2, rotated, head_dim - rotated);
  if (!about.expanded) {
    const at::Tensor key_up = w.key_up.unflatten(0, {n_heads, plain + value}).narrow(1, 0, plain);
    multiply_heads(queries.narrow(2, 0, plain), key_up, rest);
    return {placed.flatten(1), at::cat({turning, latent}, 1), at::cat({at::zeros_like(turning), latent}, 1)};
  }
  rest.copy_(queries.narrow(2, 0, plain));
  const at::Tensor heads = product(latent, w.key_up, {}).view({n, n_heads, plain + value});
  const at::Tensor keys =
      at::cat({turning.unsqueeze(1).expand({n, n_heads, rotated}), heads.narrow(2, 0, plain)}, 2);
  const at::Tensor values = at::zeros({n, n_heads, head_dim}, x.options());
  values.narrow(2, 0, value).copy_(heads.narrow(2, plain, value));
  return {placed.flatten(1), keys.flatten(1), values.flatten(1)};
}

at::Tensor Transformer::latent_output(const LatentWeights& w, const at::Tensor& mixed) const {
  const LatentConfig& about = config_.latent;
  const int64_t n = mixed.size(0), n_heads = config_.n_heads;
  const at::Tensor heads = mixed.view({n, n_heads, config_.head_dim});
  if (about.expanded) return heads.narrow(2, 0, about.value_dim).flatten(1);
  const at::Tensor value_up = w.key_up.unflatten(0, {n_heads, about.plain_dim + about.value_dim})
                                  .narrow(1, about.plain_dim, about.value_dim)
                                  .transpose(1, 2);
  const at::Tensor out = at::empty({n, n_heads, about.value_dim}, mixed.options());
  multiply_heads(heads.narrow(2, about.rotated_dim, about.rank), value_up, out);
  return out.flatten(1);
}

}  // namespace keyscope::capture
