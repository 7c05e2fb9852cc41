#include "capture/inference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include "base/errors.hpp"
#include "capture/kernels/kernels.hpp"
#include "capture/kernels/subnormals.hpp"

namespace keyscope::capture {

namespace {

// Memory that grows and is used again; aligned to a cache line.
class ScratchBuffer {
 public:
  template <typename T>
  T* reserve(std::int64_t n) {
    grow(n * sizeof(T));
    return reinterpret_cast<T*>(bytes_.get());
  }

 private:
  void grow(std::size_t n_bytes);
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

// Keys and values of one KV head as products with tiles of queries need them, in panels of kPanel rows.
//
// Two-byte elements go through LibTorch's block products (AMX where the processor has it) in pairs; where
// those are missing, and for float32, panels are float32 and multiplied by our own loop.
class AttentionOperands {
 public:
  AttentionOperands(const kernels::Kernels& kernels, at::ScalarType dtype, std::int64_t head_dim);

  // Takes rows [first, n_rows); what it has taken is valid until the next call.
  void pack(const HeadRows& rows, std::int64_t first);
  std::int64_t n_panels() const { return n_panels_; }

  // scores: [panel][row][kPanel] of n queries (n, head_dim) against panels [0, n_panels)
  void score(const void* queries, std::int64_t n, std::int64_t n_panels, float* scores);

  // out (n, head_dim) = weights · values, over panels [0, n_panels).
  //   weights: float32 [panel][row][kPanel]; paired: the same as elements, where `paired()`
  void mix(const float* weights, const void* paired_weights, std::int64_t n, std::int64_t n_panels,
           float* out);

  bool paired() const { return paired_; }

  // Gives back what the processor holds for block products; to be called when a thread has done its share.
  void release() const;

 private:
  std::size_t element_bytes() const { return paired_ ? 2 : 4; }

  const kernels::Kernels& kernels_;
  at::ScalarType dtype_;
  std::int64_t head_dim_;
  bool paired_;
  std::int64_t n_panels_ = 0;
  ScratchBuffer keys_, values_, queries_;
};

using kernels::kPanel;
namespace blas = at::native::cpublas;

constexpr std::align_val_t kCacheLine{64};

bool has_block_products(at::ScalarType dtype, std::int64_t head_dim) {
  return dtype != at::kFloat && head_dim % 2 == 0 && blas::could_pack(dtype);
}

// C (rows, cols) = A B, or C += A B, of two-byte elements with B in pairs.
void multiply_pairs(at::ScalarType dtype, std::int64_t rows, std::int64_t inner, std::int64_t cols,
                    std::int64_t a_stride, const void* a, const void* b, float* c, bool add) {
  if (dtype == at::kBFloat16)
    return blas::brgemm(rows, cols, inner, a_stride, cols, cols, add, static_cast<const at::BFloat16*>(a),
                        static_cast<const at::BFloat16*>(b), c);
  blas::brgemm(rows, cols, inner, a_stride, cols, cols, add, static_cast<const at::Half*>(a),
               static_cast<const at::Half*>(b), c);
}

void ScratchBuffer::Free::operator()(std::byte* bytes) const { ::operator delete(bytes, kCacheLine); }

void ScratchBuffer::grow(std::size_t n_bytes) {
  if (n_bytes <= size_) return;
  bytes_.reset();
  size_ = 0;
  bytes_.reset(static_cast<std::byte*>(::operator new(n_bytes, kCacheLine)));
  size_ = n_bytes;
}

AttentionOperands::AttentionOperands(const kernels::Kernels& kernels, at::ScalarType dtype,
                                     std::int64_t head_dim)
    : kernels_(kernels), dtype_(dtype), head_dim_(head_dim), paired_(has_block_products(dtype, head_dim)) {}

void AttentionOperands::pack(const HeadRows& rows, std::int64_t first) {
  const std::int64_t n_rows = rows.n_rows() - first;
  n_panels_ = (n_rows + kPanel - 1) / kPanel;
  const std::size_t panel_bytes = kPanel * head_dim_ * element_bytes();
  const auto total = static_cast<std::int64_t>(panel_bytes) * n_panels_;
  auto* keys = keys_.reserve<std::byte>(total);
  auto* values = values_.reserve<std::byte>(total);
  const auto& element = kernels::of(kernels_, dtype_);
  const std::size_t row_bytes = head_dim_ * c10::elementSize(dtype_);
  for (std::int64_t panel = 0; panel < n_panels_; ++panel) {
    const std::int64_t row = panel * kPanel, n = std::min(kPanel, n_rows - row);
    const auto offset = (first + row) * row_bytes;
    const std::byte* key_rows = static_cast<const std::byte*>(rows.keys) + offset;
    const std::byte* value_rows = static_cast<const std::byte*>(rows.values) + offset;
    std::byte* key_panel = keys + panel * panel_bytes;
    std::byte* value_panel = values + panel * panel_bytes;
    if (paired_) {
      kernels_.pair_columns(key_rows, n, head_dim_, key_panel);
      kernels_.pair_rows(value_rows, n, head_dim_, value_panel);
      continue;
    }
    element.transpose_panel(key_rows, n, head_dim_, reinterpret_cast<float*>(key_panel));
    auto* plain = reinterpret_cast<float*>(value_panel);
    element.to_float(value_rows, plain, n * head_dim_);
    std::fill(plain + n * head_dim_, plain + kPanel * head_dim_, 0.F);
  }
}

void AttentionOperands::score(const void* queries, std::int64_t n, std::int64_t n_panels, float* scores) {
  const auto* keys = keys_.reserve<std::byte>(0);
  const std::size_t panel_bytes = kPanel * head_dim_ * element_bytes();
  const float* plain = nullptr;
  if (!paired_) {
    float* converted = queries_.reserve<float>(n * head_dim_);
    kernels::of(kernels_, dtype_).to_float(queries, converted, n * head_dim_);
    plain = converted;
  }
  for (std::int64_t panel = 0; panel < n_panels; ++panel) {
    const std::byte* key_panel = keys + panel * panel_bytes;
    float* out = scores + panel * n * kPanel;
    if (paired_)
      multiply_pairs(dtype_, n, head_dim_, kPanel, head_dim_, queries, key_panel, out, false);
    else
      kernels_.multiply_panel(
          {plain, head_dim_, reinterpret_cast<const float*>(key_panel), out, n, head_dim_, kPanel, false});
  }
}

void AttentionOperands::mix(const float* weights, const void* paired_weights, std::int64_t n,
                            std::int64_t n_panels, float* out) {
  const auto* values = values_.reserve<std::byte>(0);
  const std::size_t panel_bytes = kPanel * head_dim_ * element_bytes();
  for (std::int64_t panel = 0; panel < n_panels; ++panel) {
    const std::byte* value_panel = values + panel * panel_bytes;
    const std::int64_t offset = panel * n * kPanel;
    if (paired_)
      multiply_pairs(dtype_, n, kPanel, head_dim_, kPanel,
                     static_cast<const std::byte*>(paired_weights) + offset * 2, value_panel, out, panel > 0);
    else
      kernels_.multiply_panel({weights + offset, kPanel, reinterpret_cast<const float*>(value_panel), out, n,
                               kPanel, head_dim_, panel > 0});
  }
}

void AttentionOperands::release() const {
  if (paired_) blas::brgemm_release();
}

// Queries that go through the tile at once; fewer where the cache is long, so that a tile's scores stay near.
constexpr std::int64_t kTileQueries = 64;
constexpr std::int64_t kLeastTileQueries = 16;
constexpr std::int64_t kTileScores = std::int64_t{1} << 19;

// Up to so many queries the cached rows are read as they lie: packing them would cost more than it gains.
constexpr std::int64_t kThinQueries = 4;

std::int64_t tile_queries(std::int64_t n_rows) {
  std::int64_t n = kTileQueries;
  while (n > kLeastTileQueries && n * n_rows > kTileScores) n /= 2;
  return n;
}

// One thread's share: query heads of one KV head.
class HeadAttention {
 public:
  HeadAttention(const AttentionInput& input, const AttentionWants& wants, const kernels::Kernels& kernels,
                AttentionOutput& output)
      : input_(input),
        wants_(wants),
        kernels_(kernels),
        element_(kernels::of(kernels, input.queries.scalar_type())),
        output_(output),
        n_(input.n_queries()),
        head_dim_(input.head_dim()),
        element_bytes_(static_cast<std::int64_t>(input.queries.element_size())) {}

  // Query heads [first, last), all of KV head `kv_head`.
  void run(std::int64_t kv_head, std::int64_t first, std::int64_t last) {
    rows_ = &input_.heads[kv_head];
    visible_ = visible_rows(rows_->positions, n_, input_.rules);
    if (n_ <= kThinQueries) {
      first_row_ = 0;
      for (std::int64_t head = first; head < last; ++head) run_thin(head);
      return;
    }
    // Rows that no query of the block sees any more are left out, by whole panels.
    first_row_ = visible_.begin.front() / kPanel * kPanel;
    for (auto* bounds : {&visible_.begin, &visible_.end})
      for (std::int32_t& bound : *bounds) bound -= static_cast<std::int32_t>(first_row_);
    AttentionOperands& operands = scratch().operands(kernels_, input_.queries.scalar_type(), head_dim_);
    operands.pack(*rows_, first_row_);
    const std::int64_t step = tile_queries(operands.n_panels() * kPanel);
    for (std::int64_t head = first; head < last; ++head)
      for (std::int64_t query = 0; query < n_; query += step)
        run_tile(operands, head, query, std::min(step, n_ - query));
    operands.release();
  }

 private:
  // What a thread keeps from call to call, so that no page is faulted in twice.
  struct Scratch {
    std::unique_ptr<AttentionOperands> held;
    at::ScalarType dtype = at::kFloat;
    std::int64_t head_dim = 0;
    const kernels::Kernels* kernels = nullptr;
    ScratchBuffer scores, weights, mixed, sums, window_sums, queries;

    AttentionOperands& operands(const kernels::Kernels& wanted, at::ScalarType type, std::int64_t dim) {
      if (!held || type != dtype || dim != head_dim || kernels != &wanted) {
        held = std::make_unique<AttentionOperands>(wanted, type, dim);
        dtype = type;
        head_dim = dim;
        kernels = &wanted;
      }
      return *held;
    }
  };
  static Scratch& scratch() {
    thread_local Scratch mine;
    return mine;
  }

  std::size_t n_visible_rows() const { return rows_->n_rows(); }

  const std::byte* query_row(std::int64_t head, std::int64_t query) const {
    return static_cast<const std::byte*>(input_.queries.const_data_ptr()) +
           (head * n_ + query) * head_dim_ * element_bytes_;
  }

  kernels::SoftmaxTile softmax_tile(std::int64_t head, std::int64_t query, std::int64_t count,
                                    std::int64_t n_panels, float* scores) const {
    const std::int64_t at = head * n_ + query;
    return {.scores = scores,
            .n_rows = count,
            .n_panels = n_panels,
            .begin = visible_.begin.data() + query,
            .end = visible_.end.data() + query,
            .scale = static_cast<float>(input_.rules.scale),
            .softcap = static_cast<float>(input_.rules.softcap),
            .sink = sink(head),
            .weights = nullptr,
            .log_sum_exp = output_.log_sum_exp.mutable_data_ptr<float>() + at,
            .entropy = wants_.entropy ? output_.entropy.mutable_data_ptr<float>() + at : nullptr,
            .column_sums = nullptr};
  }

  float sink(std::int64_t head) const {
    return input_.sinks.defined() ? input_.sinks.const_data_ptr<float>()[head]
                                  : -std::numeric_limits<float>::infinity();
  }

  void run_tile(AttentionOperands& operands, std::int64_t head, std::int64_t query, std::int64_t count) {
    const std::int64_t n_panels = (visible_.end[query + count - 1] + kPanel - 1) / kPanel;
    const std::int64_t n_scores = n_panels * count * kPanel;
    auto* scores = scratch().scores.reserve<float>(n_scores);
    auto* paired = operands.paired() ? scratch().weights.reserve<std::byte>(n_scores * 2) : nullptr;
    operands.score(query_row(head, query), count, n_panels, scores);
    kernels::SoftmaxTile tile = softmax_tile(head, query, count, n_panels, scores);
    tile.weights = paired;
    if (wants_.column_sums) {
      tile.column_sums = scratch().sums.reserve<double>(n_panels * kPanel);
      std::fill(tile.column_sums, tile.column_sums + n_panels * kPanel, 0.0);
    }
    element_.softmax(tile);
    auto* mixed = scratch().mixed.reserve<float>(count * head_dim_);
    {
      const kernels::SubnormalsAsZeros faster;
      operands.mix(scores, paired, count, n_panels, mixed);
    }
    store_output(head, query, count, mixed);
    take_statistics(head, query, tile);
  }

  // A few queries of one head against rows as they lie.
  void run_thin(std::int64_t head) {
    const std::int64_t n_rows = rows_->n_rows();
    const std::int64_t n_panels = (n_rows + kPanel - 1) / kPanel, stride = n_panels * kPanel;
    auto* queries = scratch().queries.reserve<float>(n_ * head_dim_);
    element_.to_float(query_row(head, 0), queries, n_ * head_dim_);
    auto* scores = scratch().scores.reserve<float>(n_ * stride);
    element_.thin_product({queries, rows_->keys, head_dim_, scores, stride, n_, head_dim_, 0, n_rows});
    auto* sums = scratch().sums.reserve<double>(stride);
    for (std::int64_t query = 0; query < n_; ++query) {
      kernels::SoftmaxTile tile = softmax_tile(head, query, 1, n_panels, scores + query * stride);
      if (wants_.column_sums) {
        std::fill(sums, sums + stride, 0.0);
        tile.column_sums = sums;
      }
      element_.softmax(tile);
      take_statistics(head, query, tile);
    }
    auto* mixed = scratch().mixed.reserve<float>(n_ * head_dim_);
    {
      const kernels::SubnormalsAsZeros faster;
      element_.weighted_sum({scores, stride, rows_->values, mixed, n_, n_rows, head_dim_});
    }
    store_output(head, 0, n_, mixed);
  }

  void store_output(std::int64_t head, std::int64_t query, std::int64_t count, const float* mixed) {
    auto* out = static_cast<std::byte*>(output_.output.mutable_data_ptr());
    const std::int64_t width = input_.n_heads() * head_dim_;
    for (std::int64_t i = 0; i < count; ++i)
      element_.from_float(mixed + i * head_dim_,
                          out + ((query + i) * width + head * head_dim_) * element_bytes_, head_dim_);
  }

  void take_statistics(std::int64_t head, std::int64_t query, const kernels::SoftmaxTile& tile) {
    const std::int64_t n_columns = std::min(tile.n_panels * kPanel, rows_->n_rows() - first_row_);
    float* weights = wants_.weights.empty() ? nullptr : wants_.weights[head];
    if (wants_.column_sums) {
      double* sums = output_.column_sums[head].data() + first_row_;
      for (std::int64_t row = 0; row < n_columns; ++row) sums[row] += tile.column_sums[row];
      for (std::int64_t i = 0; i < tile.n_rows && !output_.sink_sums.empty(); ++i)
        output_.sink_sums[head] += std::exp(static_cast<double>(tile.sink) - tile.log_sum_exp[i]);
    }
    for (std::size_t w = 0; w < wants_.windows.size(); ++w)
      add_window(query, tile, n_columns, wants_.windows[w], output_.window_sums[w][head].data() + first_row_);
    const bool has_last = query + tile.n_rows == n_;
    if (wants_.last_row && has_last)
      for (std::int64_t row = 0; row < n_columns; ++row)
        output_.last_row[head][first_row_ + row] = weight(tile, tile.n_rows - 1, row);
    if (weights != nullptr) store_weights(weights, query, tile, n_columns);
  }

  // Adds the weights of those of the tile's queries that are among the block's last `window`.
  void add_window(std::int64_t query, const kernels::SoftmaxTile& tile, std::int64_t n_columns,
                  std::int64_t window, double* to) const {
    const std::int64_t first = std::max<std::int64_t>(0, n_ - window - query);
    if (first >= tile.n_rows) return;
    const std::int64_t n_padded = tile.n_panels * kPanel;
    auto* sums = scratch().window_sums.reserve<double>(n_padded);
    std::fill(sums, sums + n_padded, 0.0);
    kernels_.add_columns({tile.scores, tile.n_rows, tile.n_panels, first, sums});
    for (std::int64_t row = 0; row < n_columns; ++row) to[row] += sums[row];
  }

  // weights: (n, n_positions) of one query head
  void store_weights(float* weights, std::int64_t query, const kernels::SoftmaxTile& tile,
                     std::int64_t n_columns) const {
    for (std::int64_t i = 0; i < tile.n_rows; ++i) {
      float* to = weights + (query + i) * wants_.n_positions;
      for (std::int64_t row = 0; row < n_columns; ++row)
        to[rows_->positions[first_row_ + row]] = weight(tile, i, row);
    }
  }

  static float weight(const kernels::SoftmaxTile& tile, std::int64_t query, std::int64_t row) {
    return tile.scores[(row / kPanel * tile.n_rows + query) * kPanel + row % kPanel];
  }

  const AttentionInput& input_;
  const AttentionWants& wants_;
  const kernels::Kernels& kernels_;
  const kernels::ElementKernels& element_;
  AttentionOutput& output_;
  std::int64_t n_, head_dim_, element_bytes_;
  const HeadRows* rows_ = nullptr;
  VisibleRows visible_;
  std::int64_t first_row_ = 0;  // of the cached rows, what the tiles' first column is
};

template <typename T>
void make_room(PerRow<T>& statistic, const AttentionInput& input) {
  for (std::int64_t head = 0; head < input.n_heads(); ++head)
    statistic.emplace_back(input.heads[head / input.group_size()].positions.size());
}

// Older rows were looked at with the block that brought them.
void check_input(const AttentionInput& input, const kernels::ElementKernels& element) {
  require_finite(element.all_finite(input.queries.const_data_ptr(), input.queries.numel()), "queries");
  const std::int64_t n_new = input.n_queries() * input.head_dim();
  for (const HeadRows& rows : input.heads) {
    const std::int64_t offset = (rows.n_rows() * input.head_dim() - n_new) * input.queries.element_size();
    require_finite(element.all_finite(static_cast<const std::byte*>(rows.keys) + offset, n_new), "keys");
    require_finite(element.all_finite(static_cast<const std::byte*>(rows.values) + offset, n_new), "values");
  }
}

// Into how many parts each KV head's group is cut, so that every thread has work.
std::int64_t parts_per_group(const AttentionInput& input) {
  const std::int64_t wanted = at::get_num_threads(),
                     n_kv_heads = static_cast<std::int64_t>(input.heads.size());
  return std::clamp<std::int64_t>((wanted + n_kv_heads - 1) / n_kv_heads, 1, input.group_size());
}

}  // namespace

void require_finite(bool finite, const char* what) {
  if (!finite)
    throw InvalidInput(std::string("attention: the ") + what +
                       " hold NaN or Inf; are the weights damaged, or too large for this --dtype?");
}

AttentionOutput attend(const AttentionInput& input, const AttentionWants& wants,
                       const kernels::Kernels& kernels) {
  check_input(input, kernels::of(kernels, input.queries.scalar_type()));
  const std::int64_t n_heads = input.n_heads(), n = input.n_queries(), group = input.group_size();
  const auto floats = at::TensorOptions().dtype(at::kFloat);
  AttentionOutput output;
  output.output = at::empty({n, n_heads * input.head_dim()}, input.queries.options());
  output.log_sum_exp = at::empty({n_heads, n}, floats);
  if (wants.entropy) output.entropy = at::empty({n_heads, n}, floats);
  if (wants.column_sums) make_room(output.column_sums, input);
  if (wants.column_sums && input.sinks.defined()) output.sink_sums.resize(n_heads);
  if (wants.last_row) make_room(output.last_row, input);
  for (std::size_t w = 0; w < wants.windows.size(); ++w) make_room(output.window_sums.emplace_back(), input);
  const std::int64_t parts = parts_per_group(input);
  at::parallel_for(0, static_cast<std::int64_t>(input.heads.size()) * parts, 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     const c10::InferenceMode inference;  // a property of each thread
                     HeadAttention attention(input, wants, kernels, output);
                     for (std::int64_t task = begin; task < end; ++task) {
                       const std::int64_t kv_head = task / parts, part = task % parts;
                       attention.run(kv_head, kv_head * group + group * part / parts,
                                     kv_head * group + group * (part + 1) / parts);
                     }
                   });
  return output;
}

VisibleRows visible_rows(std::span<const std::int32_t> positions, std::int64_t n_queries,
                         const AttentionRules& rules) {
  VisibleRows visible;
  const std::int64_t n_old = static_cast<std::int64_t>(positions.size()) - n_queries;
  for (std::int64_t i = 0; i < n_queries; ++i) {
    const std::int64_t own = n_old + i;
    const std::int64_t oldest = rules.oldest_visible(positions[own]);
    const auto begin = std::lower_bound(positions.begin(), positions.end(), oldest);
    visible.begin.push_back(static_cast<std::int32_t>(begin - positions.begin()));
    visible.end.push_back(static_cast<std::int32_t>(own + 1));
  }
  return visible;
}

}  // namespace keyscope::capture
