#include "capture/inference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/zeros.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

// Queries per tile: the additive mask and the tile of weights stay small whatever the block and the context.
constexpr std::int64_t kTileQueries = 128;
constexpr std::int64_t kTileRows = 4096;

void require_finite(const at::Tensor& tensor, const char* what) {
  if (tensor.numel() > 0 && !std::isfinite(at::max(at::abs(tensor)).item<float>()))
    throw InvalidInput(std::string("attention: the ") + what +
                       " hold NaN or Inf; are the weights damaged, or too large for this --dtype?");
}

// Rows that query i of the block may see: all before it, itself included.
std::int64_t visible_rows(const AttentionInput& input, std::int64_t query) {
  return input.keys.size(1) - input.queries.size(1) + query + 1;
}

// The causal mask of queries [first, first + count) over the rows that the last of them sees: 0 or -inf.
std::optional<at::Tensor> tile_mask(const AttentionInput& input, std::int64_t first, std::int64_t count) {
  if (count == 1) return std::nullopt;
  const std::int64_t n_rows = visible_rows(input, first + count - 1);
  at::Tensor mask = at::zeros({count, n_rows}, input.queries.options());
  mask.narrow(1, n_rows - count, count)
      .copy_(at::triu(at::full({count, count}, -INFINITY, input.queries.options()), 1));
  return mask;
}

double scale_of(const AttentionInput& input) {
  return 1.0 / std::sqrt(static_cast<double>(input.queries.size(2)));
}

// Weights of queries [first, first + count) of one KV head's group on rows [row, row + n_rows):
// (G, count, n_rows) float32, 0 where not visible.
at::Tensor weight_tile(const AttentionInput& input, const at::Tensor& log_sum_exp, std::int64_t kv_head,
                       std::int64_t first, std::int64_t count, std::int64_t row, std::int64_t n_rows) {
  const std::int64_t group = input.queries.size(0) / input.keys.size(0);
  const at::Tensor q = input.queries.narrow(0, kv_head * group, group).narrow(1, first, count).to(at::kFloat);
  const at::Tensor k = input.keys.select(0, kv_head).narrow(0, row, n_rows).to(at::kFloat);
  const at::Tensor lse = log_sum_exp.narrow(0, kv_head * group, group).narrow(1, first, count);
  at::Tensor weights = at::matmul(q, k.transpose(0, 1));
  weights.mul_(scale_of(input)).sub_(lse.unsqueeze(2)).exp_();
  // Query first + i sees rows below visible_rows(first + i): a band that moves by one per query.
  const std::int64_t last_common = visible_rows(input, first);
  if (row + n_rows > last_common) weights.tril_(last_common - 1 - row);
  return weights;
}

}  // namespace

AttentionOutput attend(const AttentionInput& input) {
  require_finite(input.queries, "queries");
  require_finite(input.keys.narrow(1, input.keys.size(1) - input.queries.size(1), input.queries.size(1)),
                 "keys");
  require_finite(input.values.narrow(1, input.values.size(1) - input.queries.size(1), input.queries.size(1)),
                 "values");
  const std::int64_t n = input.queries.size(1);
  AttentionOutput result{at::empty_like(input.queries, input.queries.options(), at::MemoryFormat::Contiguous),
                         at::empty({input.queries.size(0), n}, at::TensorOptions().dtype(at::kFloat))};
  for (std::int64_t first = 0; first < n; first += kTileQueries) {
    const std::int64_t count = std::min(kTileQueries, n - first);
    const std::int64_t n_rows = visible_rows(input, first + count - 1);
    const auto [output, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        input.queries.narrow(1, first, count).unsqueeze(0), input.keys.narrow(1, 0, n_rows).unsqueeze(0),
        input.values.narrow(1, 0, n_rows).unsqueeze(0), 0.0, false, tile_mask(input, first, count),
        scale_of(input));
    result.output.narrow(1, first, count).copy_(output.squeeze(0));
    result.log_sum_exp.narrow(1, first, count).copy_(lse.squeeze(0));
  }
  return result;
}

at::Tensor attention_column_sums(const AttentionInput& input, const at::Tensor& log_sum_exp) {
  const std::int64_t n_kv_heads = input.keys.size(0), n_rows = input.keys.size(1), n = input.queries.size(1);
  const auto group = static_cast<double>(input.queries.size(0) / n_kv_heads);
  at::Tensor sums = at::zeros({n_kv_heads, n_rows}, at::TensorOptions().dtype(at::kDouble));
  for (std::int64_t head = 0; head < n_kv_heads; ++head)
    for (std::int64_t first = 0; first < n; first += kTileQueries) {
      const std::int64_t count = std::min(kTileQueries, n - first);
      const std::int64_t n_visible = visible_rows(input, first + count - 1);
      for (std::int64_t row = 0; row < n_visible; row += kTileRows) {
        const std::int64_t n_tile = std::min(kTileRows, n_visible - row);
        const at::Tensor tile = weight_tile(input, log_sum_exp, head, first, count, row, n_tile);
        sums.select(0, head)
            .narrow(0, row, n_tile)
            .add_(tile.sum(at::IntArrayRef({0, 1}), false, at::kDouble).div_(group));
      }
    }
  return sums;
}

at::Tensor attention_rows(const AttentionInput& input, const at::Tensor& log_sum_exp, std::int64_t first,
                          std::int64_t count) {
  const std::int64_t n_kv_heads = input.keys.size(0), n_rows = input.keys.size(1);
  const std::int64_t group = input.queries.size(0) / n_kv_heads;
  at::Tensor rows = at::empty({input.queries.size(0), count, n_rows}, at::TensorOptions().dtype(at::kFloat));
  for (std::int64_t head = 0; head < n_kv_heads; ++head)
    rows.narrow(0, head * group, group).copy_(weight_tile(input, log_sum_exp, head, first, count, 0, n_rows));
  return rows;
}

}  // namespace keyscope::capture
