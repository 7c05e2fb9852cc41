#pragma once

#include <cstdint>
#include <vector>

#include "capture/inference/head_slice.hpp"
#include "capture/inference/kernel_cache.hpp"
#include "capture/inference/layer_arithmetic.hpp"

namespace keyscope::capture {

// Rows on the host, under our own kernels.
class KernelLayer : public LayerArithmetic {
 public:
  KernelLayer(const Transformer& transformer, const LayerRows& rows);

  const KvCache& cache() const override { return cache_; }
  KvCache& cache() override { return cache_; }
  void append(const ProjectedBlock& block) override;
  AttentionOutput attend(const AttentionWants& wants) override;
  HostRows cached_rows(RowPart part) const override;
  HostRows block_rows(RowPart part) const override;
  HostRows block_queries() const override;
  std::int64_t n_queries() const override { return input_.n_queries(); }
  void end_block() override;

 private:
  void append_rotated(const ProjectedBlock& block);
  void append_by_place(const ProjectedBlock& block);
  void rotate_queries(const ProjectedBlock& block, std::int64_t kv_head, const RotaryTable& table,
                      std::int64_t first) const;
  HeadSlice slice(const ProjectedBlock& block, const at::Tensor& projected, std::int64_t head) const;

  const Transformer& transformer_;
  int layer_;
  bool cache_positions_;
  KernelCache cache_;
  AttentionInput input_;                 // of the block at hand
  std::vector<at::Tensor> placed_keys_;  // what its keys lie in, where they are rotated by place
};

}  // namespace keyscope::capture
