#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keyscope::capture {

// Per KV head the rows that are kept of it, ascending.
using RetainedRows = std::vector<std::vector<std::int32_t>>;

// The cache of one layer: per KV head its own rows in time order, each with the position its token really
// has. Memory is taken once, for as many rows as each head will ever hold. What is known of the rows lies
// here, on the host; the rows themselves lie where the model computes, with the arithmetic.
class KvCache {
 public:
  // capacities: rows of each KV head
  explicit KvCache(std::span<const std::int64_t> capacities);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  virtual ~KvCache() = default;

  int n_heads() const { return static_cast<int>(heads_.size()); }
  std::int64_t n_rows(int head) const { return at(head).n_rows; }
  std::int64_t largest_rows() const;  // of any head
  std::int64_t n_bytes() const;       // allocated: rows, positions, attention received

  std::span<const std::int32_t> positions(int head) const {
    return {at(head).positions.data(), static_cast<std::size_t>(n_rows(head))};
  }

  // Per row of one head: the attention it has received from all queries so far (mean over the group), and how
  // many queries could see it.
  std::span<double> attention_received(int head) { return rows_of(at(head).received, head); }
  std::span<std::int32_t> attention_queries(int head) { return rows_of(at(head).queries, head); }

  // Keeps only these rows of every head.
  void retain(const RetainedRows& rows);

  // Holds the same rows as another cache of the same layer and arithmetic, with all that is known of them.
  //   throws InvalidInput where they do not fit
  void copy_rows(const KvCache& from);

 protected:
  // Makes room in one head for the rows of tokens first_position, first_position + 1, … and says where the
  // first of them goes.
  //   throws InvalidInput where they do not fit
  std::int64_t add_rows(int head, std::int64_t n, std::int64_t first_position);

 private:
  virtual std::int64_t row_bytes() const = 0;                // allocated for keys and values
  virtual void move_rows(const RetainedRows& retained) = 0;  // up to where they belong
  virtual void copy_keys_and_values(const KvCache& from) = 0;

  struct Head {
    std::vector<std::int32_t> positions, queries;
    std::vector<double> received;
    std::int64_t n_rows = 0;
  };
  Head& at(int head) { return heads_[head]; }
  const Head& at(int head) const { return heads_[head]; }
  template <typename T>
  std::span<T> rows_of(std::vector<T>& entries, int head) const {
    return {entries.data(), static_cast<std::size_t>(n_rows(head))};
  }

  std::vector<Head> heads_;
};

}  // namespace keyscope::capture
