#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/attention.hpp"

namespace keyscope::capture {

// The cache of one layer: per KV head its own rows in time order, each with the position its token really
// has. Memory is taken once, for as many rows as each head will ever hold.
class KvCache {
 public:
  // capacities: rows of each KV head
  KvCache(std::span<const std::int64_t> capacities, std::int64_t head_dim, at::ScalarType dtype);

  int n_heads() const { return static_cast<int>(heads_.size()); }
  std::int64_t n_rows(int head) const { return at(head).n_rows; }
  std::int64_t largest_rows() const;  // of any head
  std::int64_t n_bytes() const;       // allocated: rows, positions, attention received

  // Where rows of one head go that are appended: (n, head_dim) each.
  struct NewRows {
    void* keys;
    void* values;
  };
  // Makes room for the rows of tokens first_position, first_position + 1, …, which the caller fills.
  //   throws InvalidInput where they do not fit
  NewRows append(int head, std::int64_t n, std::int64_t first_position);

  // What is there of one head; valid until it changes.
  HeadRows rows(int head) const;
  std::span<const std::int32_t> positions(int head) const {
    return {at(head).positions.data(), static_cast<std::size_t>(n_rows(head))};
  }

  // Per row of one head: the attention it has received from all queries so far (mean over the group), and how
  // many queries could see it.
  std::span<double> attention_received(int head) { return rows_of(at(head).received, head); }
  std::span<std::int32_t> attention_queries(int head) { return rows_of(at(head).queries, head); }

  // Keeps only these rows of one head, ascending.
  void retain(int head, std::span<const std::int32_t> rows);
  // Drops the oldest n rows of one head.
  void drop_front(int head, std::int64_t n);

 private:
  struct Head {
    at::Tensor keys, values;  // (capacity, head_dim)
    std::vector<std::int32_t> positions, queries;
    std::vector<double> received;
    std::int64_t n_rows = 0;
  };
  Head& at(int head) { return heads_[static_cast<std::size_t>(head)]; }
  const Head& at(int head) const { return heads_[static_cast<std::size_t>(head)]; }
  template <typename T>
  std::span<T> rows_of(std::vector<T>& entries, int head) const {
    return {entries.data(), static_cast<std::size_t>(n_rows(head))};
  }

  std::vector<Head> heads_;
};

}  // namespace keyscope::capture
