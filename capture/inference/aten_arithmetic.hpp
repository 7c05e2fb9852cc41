#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "analysis/policies/policy.hpp"
#include "capture/inference/aten_attention.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/inference/layer_arithmetic.hpp"
#include "capture/inference/tensor_parts.hpp"
#include "capture/model/device_work.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

class TensorPolicy;

// Rows on any device, of all heads in one tensor each: one operation serves all heads. Every head has the
// memory of the one that will hold most; or they share theirs, and while they have room for different numbers
// of rows, they are brought side by side for a block.
class AtenCache : public KvCache {
 public:
  // options: the rows' dtype and device
  AtenCache(std::span<const std::int64_t> capacities, std::int64_t head_dim, const at::TensorOptions& options,
            const analysis::CacheFormat& format = {}, bool heads_share = false);

  // Appends rows of tokens first_position, first_position + 1, …: (n_kv_heads, n, head_dim) each, and rounds
  // what is to be rounded.
  //   throws InvalidInput where they do not fit
  void append(const at::Tensor& keys, const at::Tensor& values, std::int64_t first_position);

  // What is there: (n_kv_heads, largest_rows(), head_dim). What lies past a head's own rows is finite, and no
  // row of it. Valid until it changes.
  at::Tensor keys() const { return side_by_side(keys_); }
  at::Tensor values() const { return side_by_side(values_); }
  at::Tensor part_rows(int head, RowPart part, RowSpan rows) const;  // (n, head_dim), likewise

  bool alike() const;  // whether all heads hold as many rows

  // Keeps only these rows of every head: (n_kv_heads, n) int64, ascending, where the rows lie. What is known
  // of rows follows when somebody asks, by `on_host`, which is called once.
  void retain_there(const at::Tensor& rows, std::function<RetainedRows()> on_host);

  // Which of its own rows each head's last n are: (n_kv_heads, n) int64.
  at::Tensor last_rows(std::int64_t n) const;

 private:
  std::int64_t row_bytes() const override;
  void move_rows(const RetainedRows& retained) override;
  void copy_keys_and_values(const KvCache& from) override;
  void take_memory(std::int64_t n_rows) override;
  void move_heads(std::span<const std::int64_t> first) override;
  void move(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to);
  at::Tensor side_by_side(const at::Tensor& rows) const;
  std::int64_t begin(int head) const;  // where its rows do, those of all heads counted one after another
  at::Tensor begins() const;           // of every head: (n_kv_heads, 1) int64
  std::int64_t head_dim() const override { return keys_.size(2); }
  std::int64_t element_bytes() const override { return keys_.element_size(); }
  void round(int head, RowPart part, RowSpan rows, const analysis::RowRounding& rounding) override;
  float largest_magnitude(int head, RowPart part, RowSpan rows) const override;

  // (n_kv_heads, largest capacity, head_dim); of heads that share theirs, only how many there are in all
  // tells
  at::Tensor keys_, values_;
};

// Of every head the rows that `rows` (n_heads, n) names, out of (n_heads, n_rows, width): (n_heads, n,
// width).
at::Tensor gather_rows(const at::Tensor& tensor, const at::Tensor& rows);

// What analysis::round_rows makes of rows (n, head_dim) of a head, to the bit, with LibTorch's operations.
//   returns them in their own dtype
at::Tensor rounded_rows(const at::Tensor& rows, const analysis::RowRounding& rounding);

// Rows where the model's weights lie, under LibTorch's operations.
class AtenLayer : public LayerArithmetic {
 public:
  AtenLayer(const AtenTransformer& transformer, const LayerRows& rows);

  const KvCache& cache() const override { return cache_; }
  KvCache& cache() override { return cache_; }
  void append(const ProjectedBlock& block) override;
  ExpectedRows expect(const WantedRows& rows) override;
  bool tells_late() const override { return true; }
  AttentionOutput attend(const AttentionWants& wants) override;
  void check() override;
  std::optional<LayerEviction> evict(const EvictionRule& rule, const BlockStatistics& block,
                                     bool told) override;
  LateSelections evict_alike(const EvictionRule& rule, const BlockStatistics& block) override;
  std::optional<LayerRanks> rank(const EvictionRule& rule, const BlockStatistics& block) override;
  std::optional<analysis::LayerPreference> preference(const BlockStatistics& block) override;
  HostRows cached_rows(RowPart part) const override;
  at::Tensor cached_values(int kv_head, RowSpan rows) const override;
  // All that are cached, past a head's own anything finite: (n_kv_heads, rows of the fullest, head_dim).
  // Valid until the layer's next change.
  at::Tensor cached_tensor(RowPart part) const;
  at::Tensor last_queries(std::int64_t n) const override;
  void count_queries(const ProjectedBlock& block, const analysis::Rotation& rotation) override;
  void copy_moments(const LayerArithmetic& from) override;
  const TensorMoments& tensor_moments() const { return moments_; }
  std::int64_t n_queries() const override { return input_.queries.size(1); }
  void end_block() override;

 private:
  void append_rotated(const ProjectedBlock& block);
  void append_by_place(const ProjectedBlock& block);
  const TensorPolicy* policy_on_tensors(const EvictionRule& rule);

  const AtenTransformer& transformer_;
  int layer_;
  bool cache_positions_;
  HeadShape heads_;
  AtenCache cache_;
  AtenAttentionInput input_;  // of the block at hand
  std::int64_t first_position_ = 0;
  // Of blocks by their first position, what AttentionOutput::unchecked says of them.
  std::vector<std::pair<std::int64_t, HostCopy>> unchecked_;
  SideStream side_stream_;
  TensorMoments moments_;
  const analysis::Policy* policy_ = nullptr;        // that evicted last
  std::shared_ptr<const TensorPolicy> on_tensors_;  // the same; null where it cannot look at tensors
};

}  // namespace keyscope::capture
