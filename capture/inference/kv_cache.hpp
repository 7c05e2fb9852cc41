#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace keyscope::capture {

// The cache of one layer: per KV head its own set of rows, all heads the same number, in time order, each row
// with the position its token really has. Memory is taken once, for `capacity` rows.
class KvCache {
 public:
  KvCache(int n_kv_heads, int head_dim, std::int64_t capacity, at::ScalarType dtype);

  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_bytes() const;  // allocated: rows, positions, attention received

  // Appends the rows of tokens first_position, first_position + 1, …; keys, values: (n_kv_heads, n,
  // head_dim).
  void append(const at::Tensor& keys, const at::Tensor& values, std::int64_t first_position);

  // Views of the rows that are there: (n_kv_heads, n_rows, head_dim).
  at::Tensor keys() const { return keys_.narrow(1, 0, n_rows_); }
  at::Tensor values() const { return values_.narrow(1, 0, n_rows_); }

  // Per row of one head: its true position, the attention it has received from all queries so far (mean over
  // the group), and how many queries could see it.
  std::span<const std::int32_t> positions(int kv_head) const { return rows(positions_, kv_head); }
  std::span<double> attention_received(int kv_head) { return rows(received_, kv_head); }
  std::span<std::int32_t> attention_queries(int kv_head) { return rows(queries_, kv_head); }

  // Keeps only these rows of one head (ascending, n_kept of them); the caller shrinks every head alike and
  // then sets the number of rows.
  void compact(int kv_head, std::span<const std::int32_t> retained);
  void set_rows(std::int64_t n_kept) { n_rows_ = n_kept; }

 private:
  template <typename T>
  std::span<T> rows(std::vector<std::vector<T>>& all, int kv_head) {
    return {all[static_cast<std::size_t>(kv_head)].data(), static_cast<std::size_t>(n_rows_)};
  }
  template <typename T>
  std::span<const T> rows(const std::vector<std::vector<T>>& all, int kv_head) const {
    return {all[static_cast<std::size_t>(kv_head)].data(), static_cast<std::size_t>(n_rows_)};
  }

  std::int64_t n_rows_ = 0;
  at::Tensor keys_, values_;  // (n_kv_heads, capacity, head_dim)
  std::vector<std::vector<std::int32_t>> positions_;
  std::vector<std::vector<double>> received_;
  std::vector<std::vector<std::int32_t>> queries_;
};

}  // namespace keyscope::capture
