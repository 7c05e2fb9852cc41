#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "capture/inference/attention.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/inference/layer_arithmetic.hpp"
#include "capture/model/rope.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// Rows in the host's memory, one head's after the other's.
class KernelCache : public KvCache {
 public:
  //   memory: where rows are to lie; null: anywhere
  KernelCache(std::span<const std::int64_t> capacities, std::int64_t head_dim, at::ScalarType dtype,
              const analysis::CacheFormat& format = {}, const std::shared_ptr<SharedMemory>& memory = nullptr,
              bool heads_share = false);

  // Where rows of one head go that are appended: (n, head_dim) each.
  struct NewRows {
    void* keys;
    void* values;
  };
  // Makes room for the rows of tokens first_position, first_position + 1, …, which the caller fills and then
  // calls `rows_filled` for. Heads may be appended to at the same time.
  //   throws InvalidInput where they do not fit
  NewRows append(int head, std::int64_t n, std::int64_t first_position);

  // What is there of one head; valid until it changes.
  HeadRows rows(int head) const;
  at::Tensor values(int head, RowSpan rows) const;  // (n, head_dim), likewise

 private:
  std::int64_t row_bytes() const override;
  void move_rows(const RetainedRows& retained) override;
  void copy_keys_and_values(const KvCache& from) override;
  void take_memory(std::int64_t n_rows) override;
  void move_heads(std::span<const std::int64_t> first) override;
  at::Tensor room(std::int64_t n_rows) const;  // (n_rows, head_dim), undefined values
  std::int64_t head_dim() const override { return head_dim_; }
  std::int64_t element_bytes() const override;
  void round(int head, RowPart part, RowSpan rows, const analysis::RowRounding& rounding) override;
  float largest_magnitude(int head, RowPart part, RowSpan rows) const override;
  std::vector<float> as_floats(int head, RowPart part, RowSpan rows) const;
  std::byte* row(int head, RowPart part, std::int64_t index) const;

  std::int64_t head_dim_;
  at::ScalarType dtype_;
  std::shared_ptr<SharedMemory> memory_;  // null: anywhere
  at::Tensor keys_, values_;              // (rows that all heads have room for, head_dim)
};

// One head's part of rows that hold several heads: `n` vectors of `head_dim`, `stride` elements apart.
struct HeadSlice {
  at::ScalarType dtype;
  const void* first;
  std::int64_t stride;
  std::int64_t n;
  std::int64_t head_dim;
};

// To (n, head_dim), rotated by a table of n entries; as they are where it is undefined.
void rotate_rows(const HeadSlice& rows, const RotaryTable& table, bool interleaved, void* out);

// To (n, head_dim), as they are.
void copy_rows(const HeadSlice& rows, void* out);

// Rows on the host, under our own kernels.
class KernelLayer : public LayerArithmetic {
 public:
  KernelLayer(const Transformer& transformer, const LayerRows& rows);

  const KvCache& cache() const override { return cache_; }
  KvCache& cache() override { return cache_; }
  void append(const ProjectedBlock& block) override;
  ExpectedRows expect(const WantedRows& rows) override;
  AttentionOutput attend(const AttentionWants& wants) override;
  HostRows cached_rows(RowPart part) const override;
  at::Tensor cached_values(int kv_head, RowSpan rows) const override;
  at::Tensor last_queries(std::int64_t n) const override;
  void count_queries(const ProjectedBlock& block, const analysis::Rotation& rotation) override;
  std::span<const analysis::QueryMoments> moments() const override { return moments_; }
  void copy_moments(const LayerArithmetic& from) override;
  std::int64_t n_queries() const override { return input_.n_queries(); }
  void end_block() override;

 private:
  HostRows block_rows(RowPart part) const;
  HostRows block_queries() const;
  void append_rotated(const ProjectedBlock& block);
  void append_by_place(const ProjectedBlock& block);
  void rotate_queries(const ProjectedBlock& block, std::int64_t kv_head, const RotaryTable& table) const;
  RotaryTable rotary_table(std::int64_t first, std::int64_t n) const;
  RotaryTable query_table(const RotaryTable& table, std::int64_t first_position) const;
  bool interleaved() const { return transformer_.config().interleaved_rotation; }
  HeadSlice slice(const ProjectedBlock& block, const at::Tensor& projected, std::int64_t head) const;

  const Transformer& transformer_;
  int layer_;
  bool cache_positions_;
  HeadShape heads_;
  KernelCache cache_;
  AttentionInput input_;                 // of the block at hand
  std::vector<at::Tensor> placed_keys_;  // what its keys lie in, where they are rotated by place
  std::vector<analysis::QueryMoments> moments_;
};

}  // namespace keyscope::capture
