#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"

namespace keyscope::benchmarks {

// This thread's processor time in seconds: what others do on the machine is not in it.
double thread_seconds();

// What the statistics that a policy reads add to the attention of a block whose queries are the last rows of
// one KV head's cache.
class AttentionCost {
 public:
  //   keys, values: (n_keys, head_dim), kept by the caller, as are the positions
  //   group_size: query heads that share the KV head; block: queries of each
  AttentionCost(const RowMatrixF& keys, const RowMatrixF& values, std::span<const std::int32_t> positions,
                std::int64_t group_size, std::int64_t block);

  // Processor time of attention with these statistics, less that of attention alone; 0 where the policy reads
  // none, or where they are lost in the noise.
  double measure_seconds(const analysis::PolicyNeeds& needs) const;

 private:
  const RowMatrixF& keys_;
  const RowMatrixF& values_;
  std::span<const std::int32_t> positions_;
  at::Tensor queries_;
};

}  // namespace keyscope::benchmarks
