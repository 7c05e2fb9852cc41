#pragma once

#include <cstdint>

#include "capture/inference/aten_attention.hpp"
#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/layer_arithmetic.hpp"

namespace keyscope::capture {

// Rows where the model's weights lie, under LibTorch's operations.
class AtenLayer : public LayerArithmetic {
 public:
  AtenLayer(const Transformer& transformer, const LayerRows& rows);

  const KvCache& cache() const override { return cache_; }
  KvCache& cache() override { return cache_; }
  void append(const ProjectedBlock& block) override;
  AttentionOutput attend(const AttentionWants& wants) override;
  HostRows cached_rows(RowPart part) const override;
  HostRows block_rows(RowPart part) const override;
  HostRows block_queries() const override;
  std::int64_t n_queries() const override { return input_.queries.size(1); }
  void end_block() override;

 private:
  void append_rotated(const ProjectedBlock& block);
  void append_by_place(const ProjectedBlock& block);
  RotaryTable rotary_table(std::int64_t first, std::int64_t n) const;

  const Transformer& transformer_;
  int layer_;
  bool cache_positions_;
  AtenCache cache_;
  AtenAttentionInput input_;  // of the block at hand
};

}  // namespace keyscope::capture
