#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/attention.hpp"
#include "capture/inference/kv_cache.hpp"

namespace keyscope::capture {

// Rows in the host's memory, every head's by themselves.
class KernelCache : public KvCache {
 public:
  KernelCache(std::span<const std::int64_t> capacities, std::int64_t head_dim, at::ScalarType dtype);

  // Where rows of one head go that are appended: (n, head_dim) each.
  struct NewRows {
    void* keys;
    void* values;
  };
  // Makes room for the rows of tokens first_position, first_position + 1, …, which the caller fills. Heads
  // may be appended to at the same time.
  //   throws InvalidInput where they do not fit
  NewRows append(int head, std::int64_t n, std::int64_t first_position);

  // What is there of one head; valid until it changes.
  HeadRows rows(int head) const;

 private:
  struct Rows {
    at::Tensor keys, values;  // (capacity, head_dim)
  };
  std::int64_t row_bytes() const override;
  void move_rows(const RetainedRows& retained) override;
  void copy_keys_and_values(const KvCache& from) override;

  std::vector<Rows> rows_;  // per KV head
};

}  // namespace keyscope::capture
