#include "capture/inference/aten_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "capture/inference/attention.hpp"

namespace keyscope::capture {
namespace {

using std::int64_t;

// Which rows queries see. Where all heads hold as many and no window ends, it is those up to their own;
// elsewhere ranges per KV head and query: here for the bounds of tiles, on the device for masks.
class Visible {
 public:
  Visible(const AtenAttentionInput& input, int64_t n) : n_queries_(n), n_rows_(input.keys.size(1)) {
    const auto n_heads = static_cast<int64_t>(input.head_rows.size());
    all_up_to_own_ = input.rules.window == 0 &&
                     std::ranges::all_of(input.head_rows, [&](int64_t rows) { return rows == n_rows_; });
    if (all_up_to_own_) return;
    const at::Tensor both = at::empty({2, n_heads, 1, n, 1}, at::TensorOptions().dtype(at::kInt));
    auto* bounds = both.mutable_data_ptr<std::int32_t>();
    for (int64_t head = 0; head < n_heads; ++head) {
      heads_.push_back(visible_rows(input.positions(static_cast<int>(head)), n, input.rules));
      std::ranges::copy(heads_.back().begin, bounds + head * n);
      std::ranges::copy(heads_.back().end, bounds + (n_heads + head) * n);
    }
    const at::Tensor there = both.to(input.queries.device());
    begin_ = there[0];
    end_ = there[1];
  }

  bool all_up_to_own() const { return all_up_to_own_; }
  bool all() const { return all_up_to_own_ && n_queries_ == 1; }

  // Rows [first, last) are all that queries [query, query + n) of any head see: later queries see no older
  // row than earlier ones.
  std::pair<int64_t, int64_t> of_any(int64_t query, int64_t n) const {
    if (all_up_to_own_) return {0, own(query + n - 1) + 1};
    std::pair<int64_t, int64_t> rows{std::numeric_limits<int64_t>::max(), 0};
    for (const VisibleRows& head : heads_) {
      rows.first = std::min<int64_t>(rows.first, head.begin[query]);
      rows.second = std::max<int64_t>(rows.second, head.end[query + n - 1]);
    }
    return rows;
  }

  // Where queries [query, query + n) do not see rows [first_row, first_row + n_rows): (heads, 1, n, n_rows),
  // one head where all are alike.
  at::Tensor hidden(int64_t query, int64_t n, int64_t first_row, int64_t n_rows, at::Device device) const {
    const auto ints = at::TensorOptions().dtype(at::kInt).device(device);
    const at::Tensor row = at::arange(first_row, first_row + n_rows, ints);
    if (all_up_to_own_)
      return (row > at::arange(own(query), own(query) + n, ints).unsqueeze(1)).view({1, 1, n, n_rows});
    return (row < begin_.narrow(2, query, n)).logical_or_(row >= end_.narrow(2, query, n));
  }

  int64_t own(int64_t query) const { return n_rows_ - n_queries_ + query; }  // a query's own row

 private:
  int64_t n_queries_, n_rows_;
  bool all_up_to_own_ = false;
  std::vector<VisibleRows> heads_;
  at::Tensor begin_, end_;  // (n_kv_heads, 1, n, 1) int32
};

// What is summed up on the device, to come to the host in one piece.
struct Sums {
  at::Tensor finite;             // (3) sums of queries, new keys, new values: finite where all of them are
  at::Tensor log_sum_exp;        // (n_heads, n) float32
  at::Tensor entropy, last_row;  // (n_heads, n), (n_heads, n_rows) float32
  at::Tensor columns;            // (n_heads, n_rows) float64
  at::Tensor sinks;              // (n_heads) float64
  std::vector<at::Tensor> windows;
};

// Where each of them lies in that piece.
struct SumsLayout {
  AttentionWants wants;
  std::vector<int64_t> head_rows;  // per KV head
  int64_t n_heads = 0, n = 0, n_rows = 0;
  bool sinks = false;

  //   sums: float64, on the host
  //   throws InvalidInput as aten_attend does
  AttentionStatistics unpacked(const at::Tensor& sums) const {
    require_finite_sums(sums.narrow(0, 0, 3).to(at::kFloat));
    AttentionStatistics statistics;
    const double* next = sums.const_data_ptr<double>() + 3;
    if (wants.entropy) {
      statistics.entropy = at::empty({n_heads, n}, at::TensorOptions().dtype(at::kFloat));
      std::copy_n(next, n_heads * n, statistics.entropy.mutable_data_ptr<float>());
      next += n_heads * n;
    }
    if (wants.last_row) statistics.last_row = take_rows<float>(next);
    if (wants.column_sums) statistics.column_sums = take_rows<double>(next);
    if (sinks) {
      statistics.sink_sums.assign(next, next + n_heads);
      next += n_heads;
    }
    for (std::size_t w = 0; w < wants.windows.size(); ++w)
      statistics.window_sums.push_back(take_rows<double>(next));
    return statistics;
  }

  template <typename T>
  PerRow<T> take_rows(const double*& next) const {
    PerRow<T> taken;
    const int64_t group = n_heads / std::ssize(head_rows);
    for (int64_t head = 0; head < n_heads; ++head, next += n_rows)
      taken.emplace_back(next, next + head_rows[head / group]);
    return taken;
  }
};

class AtenAttention {
 public:
  AtenAttention(const AtenAttentionInput& input, const AttentionWants& wants, int64_t tile_scores)
      : input_(input),
        wants_(wants),
        tile_scores_(tile_scores),
        n_heads_(input.queries.size(0)),
        n_(input.queries.size(1)),
        head_dim_(input.queries.size(2)),
        n_kv_heads_(input.keys.size(0)),
        n_rows_(input.keys.size(1)),
        visible_(input, n_),
        fused_(may_fuse()) {}

  AttentionOutput run() {
    prepare();
    if (fused_) for_tiles(mask_heads() * group(), [&](const Tile& tile) { mix_fused(tile); });
    if (!fused_ || wants_weights())
      for_tiles(n_heads_, [&](Tile tile) {
        weigh(tile);
        if (!fused_) mix(tile);
        take_statistics(tile);
      });
    output_.log_sum_exp = sums_.log_sum_exp;
    if (wants_weights())
      bring_statistics();
    else
      output_.unchecked = sums_.finite;
    return std::move(output_);
  }

 private:
  // A tile of queries on the rows that any of them sees.
  struct Tile {
    int64_t query, n, first_row, n_rows;
    at::Tensor weights;  // (n_heads, n, n_rows) float32
  };

  void prepare() {
    const auto floats = input_.queries.options().dtype(at::kFloat), doubles = floats.dtype(at::kDouble);
    output_.output = at::empty({n_, n_heads_ * head_dim_}, input_.queries.options());
    // No number but NaN and Inf makes a sum that is none, but where products would have none either.
    const auto finite = [](const at::Tensor& values) { return values.sum(at::kFloat); };
    sums_.finite = at::stack({finite(input_.queries), finite(input_.new_keys), finite(input_.new_values)});
    sums_.log_sum_exp = at::empty({n_heads_, n_}, floats);
    if (wants_.entropy) sums_.entropy = at::empty({n_heads_, n_}, floats);
    if (wants_.last_row) sums_.last_row = at::zeros({n_heads_, n_rows_}, floats);
    if (wants_.column_sums) sums_.columns = at::zeros({n_heads_, n_rows_}, doubles);
    for (std::size_t w = 0; w < wants_.windows.size(); ++w)
      sums_.windows.push_back(at::zeros({n_heads_, n_rows_}, doubles));
    if (!input_.sinks.defined()) return;
    sinks_ = input_.sinks.to(input_.queries.device()).view({n_kv_heads_, -1, 1, 1});
    if (wants_.column_sums) sums_.sinks = at::zeros({n_heads_}, doubles);
  }

  // Scores that are capped are no business of PyTorch's kernels, nor are heads that do not fill 16 bytes.
  bool may_fuse() const {
    return input_.rules.softcap == 0 && head_dim_ * input_.queries.element_size() % 16 == 0;
  }

  bool wants_weights() const {
    const auto wanted = [](const float* weights) { return weights != nullptr; };
    return wants_.column_sums || wants_.entropy || wants_.last_row || !wants_.windows.empty() ||
           std::ranges::any_of(wants_.weights, wanted);
  }

  int64_t group() const { return n_heads_ / n_kv_heads_; }
  int64_t mask_heads() const { return visible_.all_up_to_own() ? 1 : n_kv_heads_; }

  // Calls use(tile) for tiles of as many queries as have no more scores than a tile may, in so many heads.
  template <typename Use>
  void for_tiles(int64_t n_heads, const Use& use) {
    const int64_t step = std::clamp<int64_t>(tile_scores_ / (n_heads * n_rows_), 1, n_);
    for (int64_t query = 0; query < n_; query += step) {
      const int64_t n = std::min(step, n_ - query);
      const auto [first, last] = visible_.of_any(query, n);
      use(Tile{query, n, first, last - first, {}});
    }
  }

  // (n_kv_heads, G · n, head_dim), in their own dtype.
  at::Tensor queries(const Tile& tile) const {
    return input_.queries.narrow(1, tile.query, tile.n)
        .reshape({n_kv_heads_, group() * tile.n, head_dim_})
        .contiguous();
  }

  // What PyTorch's kernels add to scores, (1, n_kv_heads, G · n, n_rows); nothing where every query sees all.
  std::optional<at::Tensor> mask(const Tile& tile) const {
    if (visible_.all()) return {};
    constexpr int64_t kAligned = 16;  // rows lie so many elements apart, or a multiple of it
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    const int64_t width = (tile.n_rows + kAligned - 1) / kAligned * kAligned;
    const at::TensorOptions& options = input_.queries.options();
    at::Tensor all;
    if (visible_.all_up_to_own()) {
      all = at::full({tile.n, width}, kHidden, options).triu_(visible_.own(tile.query) + 1 - tile.first_row);
      all = all.repeat({group(), 1});
    } else {
      all = at::zeros({n_kv_heads_, group(), tile.n, width}, options);
      all.narrow(3, 0, tile.n_rows).masked_fill_(hidden(tile), kHidden);
    }
    return all.view({1, mask_heads(), group() * tile.n, width})
        .narrow(3, 0, tile.n_rows)
        .expand({1, n_kv_heads_, -1, -1});
  }

  at::Tensor hidden(const Tile& tile) const {
    return visible_.hidden(tile.query, tile.n, tile.first_row, tile.n_rows, input_.queries.device());
  }

  // The output by PyTorch's own kernel, which keeps no score, with the log-sum-exp that weights are taken
  // from where they are wanted.
  void mix_fused(const Tile& tile) {
    const auto rows = [&](const at::Tensor& all) {
      return all.narrow(1, tile.first_row, tile.n_rows).unsqueeze(0);
    };
    const at::Tensor of_tile = queries(tile).unsqueeze(0), keys = rows(input_.keys),
                     values = rows(input_.values);
    const double scale = input_.rules.scale;
    at::Tensor mixed, log_sum_exp;
    if (of_tile.is_cpu())
      std::tie(mixed, log_sum_exp) =
          at::_scaled_dot_product_flash_attention_for_cpu(of_tile, keys, values, 0, false, mask(tile), scale);
    else
      std::tie(mixed, log_sum_exp, std::ignore, std::ignore) = at::_scaled_dot_product_efficient_attention(
          of_tile, keys, values, mask(tile), true, 0, false, scale);
    mixed = mixed.reshape({n_heads_, tile.n, head_dim_});
    log_sum_exp = log_sum_exp.narrow(2, 0, group() * tile.n).reshape({n_heads_, tile.n});
    if (sinks_.defined()) {
      const at::Tensor with_sink = at::logaddexp(log_sum_exp, sinks_.view({n_heads_, 1}));
      mixed = (log_sum_exp - with_sink).exp_().unsqueeze(2) * mixed;
      log_sum_exp = with_sink;
    }
    sums_.log_sum_exp.narrow(1, tile.query, tile.n).copy_(log_sum_exp);
    put_output(tile, mixed);
  }

  // mixed: (n_heads, n, head_dim)
  void put_output(const Tile& tile, const at::Tensor& mixed) {
    output_.output.narrow(0, tile.query, tile.n)
        .view({tile.n, n_heads_, head_dim_})
        .copy_(mixed.transpose(0, 1));
  }

  // Rows of a float32 part of keys or values that is made at once.
  int64_t rows_at_once() const { return std::max<int64_t>(1, tile_scores_ / (n_kv_heads_ * head_dim_)); }

  // Calls use(row, part) for parts (n_kv_heads, …, head_dim) of the tile's rows as float32; row: the first in
  // the tile.
  template <typename Use>
  void for_parts(const at::Tensor& rows, const Tile& tile, const Use& use) const {
    for (int64_t row = 0; row < tile.n_rows; row += rows_at_once()) {
      const int64_t count = std::min(rows_at_once(), tile.n_rows - row);
      use(row, rows.narrow(1, tile.first_row + row, count).to(at::kFloat));
    }
  }

  // (n_kv_heads, G, n, n_rows): scaled and capped, minus infinity where a query does not see a row.
  at::Tensor score(const Tile& tile) const {
    at::Tensor scores = products(tile).view({n_kv_heads_, group(), tile.n, tile.n_rows});
    scores.mul_(input_.rules.scale);
    if (const double cap = input_.rules.softcap; cap > 0) scores.div_(cap).tanh_().mul_(cap);
    return scores.masked_fill_(hidden(tile), -std::numeric_limits<double>::infinity());
  }

  // Of queries and keys, with float32 sums: (n_kv_heads, G · n, n_rows).
  at::Tensor products(const Tile& tile) const {
    const at::Tensor of_tile = queries(tile);
    if (!of_tile.is_cpu() && of_tile.scalar_type() != at::kFloat)
      return at::bmm(of_tile, input_.keys.narrow(1, tile.first_row, tile.n_rows).transpose(1, 2), at::kFloat);
    const at::Tensor wide = of_tile.to(at::kFloat);
    std::vector<at::Tensor> parts;
    for_parts(input_.keys, tile,
              [&](int64_t, const at::Tensor& keys) { parts.push_back(at::bmm(wide, keys.transpose(1, 2))); });
    return parts.size() == 1 ? parts.front() : at::cat(parts, 2);
  }

  // What is taken off scores before their exponentials: their largest, or the log-sum-exp that is known.
  at::Tensor shift(const Tile& tile, const at::Tensor& scores) const {
    if (fused_)
      return sums_.log_sum_exp.narrow(1, tile.query, tile.n).view({n_kv_heads_, group(), tile.n, 1});
    const at::Tensor most = at::amax(scores, -1, true);
    return sinks_.defined() ? at::maximum(most, sinks_) : most;
  }

  // Softmax over the rows, with what it gives on the way.
  void weigh(Tile& tile) {
    at::Tensor scores = score(tile);
    const at::Tensor most = shift(tile, scores);
    scores.sub_(most);
    at::Tensor weights = scores.exp();
    at::Tensor sum = weights.sum(-1, true), sink;
    if (sinks_.defined()) {
      sink = sinks_ - most;
      sum = sum + sink.exp();
    }
    const at::Tensor log_sum = sum.log();
    const auto of_queries = [&](const at::Tensor& all) { return all.narrow(1, tile.query, tile.n); };
    of_queries(sums_.log_sum_exp).copy_((most + log_sum).view({n_heads_, tile.n}));
    // H = -Σ p ln p with p = e / sum and ln p = (s - most) - ln sum; e is 0 below -87
    if (wants_.entropy) {
      at::Tensor moment = scores.clamp_min_(-87).mul_(weights).sum(-1, true);
      if (sink.defined()) moment = moment + sink.exp() * sink.clamp_min(-87);
      of_queries(sums_.entropy).copy_((log_sum - moment / sum).view({n_heads_, tile.n}));
    }
    tile.weights = weights.div_(sum).view({n_heads_, tile.n, tile.n_rows});
    if (wants_.column_sums && sink.defined())
      sums_.sinks.add_((sink.exp() / sum).view({n_heads_, tile.n}).sum(1, false, at::kDouble));
  }

  // The weighted values, in float32.
  void mix(const Tile& tile) {
    const at::Tensor weights = tile.weights.view({n_kv_heads_, group() * tile.n, tile.n_rows});
    at::Tensor mixed;
    for_parts(input_.values, tile, [&](int64_t row, const at::Tensor& values) {
      const at::Tensor part = at::bmm(weights.narrow(2, row, values.size(1)), values);
      mixed = mixed.defined() ? mixed.add_(part) : part;
    });
    put_output(tile, mixed.view({n_heads_, tile.n, head_dim_}));
  }

  void take_statistics(const Tile& tile) {
    const auto of_rows = [&](const at::Tensor& all) { return all.narrow(1, tile.first_row, tile.n_rows); };
    if (wants_.column_sums) of_rows(sums_.columns).add_(tile.weights.sum(1, false, at::kDouble));
    for (std::size_t w = 0; w < wants_.windows.size(); ++w) {
      const int64_t skip = std::max<int64_t>(0, n_ - wants_.windows[w] - tile.query);
      if (skip < tile.n)
        of_rows(sums_.windows[w])
            .add_(tile.weights.narrow(1, skip, tile.n - skip).sum(1, false, at::kDouble));
    }
    if (wants_.last_row && tile.query + tile.n == n_)
      of_rows(sums_.last_row).copy_(tile.weights.select(1, tile.n - 1));
    for (std::size_t head = 0; head < wants_.weights.size(); ++head)
      if (wants_.weights[head] != nullptr) store_weights(tile, head);
  }

  void store_weights(const Tile& tile, std::size_t head) const {
    const auto positions = input_.positions(static_cast<int>(kv_head(head)));
    const at::Tensor here = tile.weights[static_cast<int64_t>(head)].to(at::kCPU).contiguous();
    const float* weights = here.const_data_ptr<float>();
    const int64_t end = std::min(tile.first_row + tile.n_rows, static_cast<int64_t>(positions.size()));
    for (int64_t i = 0; i < tile.n; ++i)
      for (int64_t row = tile.first_row; row < end; ++row)
        wants_.weights[head][(tile.query + i) * wants_.n_positions + positions[row]] =
            weights[i * tile.n_rows + row - tile.first_row];
  }

  std::size_t kv_head(std::size_t query_head) const { return query_head / static_cast<std::size_t>(group()); }

  // One copy, which is also where the host waits for the device, or else what asks for it later.
  void bring_statistics() {
    std::vector<at::Tensor> pieces{sums_.finite, sums_.entropy, sums_.last_row, sums_.columns, sums_.sinks};
    pieces.insert(pieces.end(), sums_.windows.begin(), sums_.windows.end());
    std::erase_if(pieces, [](const at::Tensor& piece) { return !piece.defined(); });
    for (at::Tensor& piece : pieces) piece = piece.flatten().to(at::kDouble);
    const at::Tensor all = at::cat(pieces);
    SumsLayout layout{wants_, input_.head_rows, n_heads_, n_, n_rows_, sums_.sinks.defined()};
    if (wants_.may_come_late && input_.side_stream != nullptr)
      output_.late = [layout = std::move(layout), copy = HostCopy(all, *input_.side_stream)] {
        return layout.unpacked(copy.arrived());
      };
    else
      static_cast<AttentionStatistics&>(output_) = layout.unpacked(all.to(at::kCPU));
  }

  const AtenAttentionInput& input_;
  const AttentionWants& wants_;
  int64_t tile_scores_, n_heads_, n_, head_dim_, n_kv_heads_, n_rows_;
  Visible visible_;
  bool fused_;
  at::Tensor sinks_;  // (n_kv_heads, G, 1, 1)
  Sums sums_;
  AttentionOutput output_;
};

}  // namespace

AttentionOutput aten_attend(const AtenAttentionInput& input, const AttentionWants& wants,
                            std::int64_t tile_scores) {
  return AtenAttention(input, wants, tile_scores).run();
}

void require_finite_sums(const at::Tensor& sums) {
  const float* next = sums.const_data_ptr<float>();
  for (const char* what : {"queries", "keys", "values"}) require_finite(std::isfinite(*next++), what);
}

}  // namespace keyscope::capture
