#include "capture/inference/kv_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

template <typename T>
void move_entries(std::vector<T>& entries, std::span<const std::int32_t> retained) {
  for (std::size_t to = 0; to < retained.size(); ++to) entries[to] = entries[retained[to]];
}

}  // namespace

KvCache::KvCache(std::span<const std::int64_t> capacities) {
  for (const std::int64_t capacity : capacities) {
    const auto n = static_cast<std::size_t>(capacity);
    heads_.push_back({.positions = std::vector<std::int32_t>(n),
                      .queries = std::vector<std::int32_t>(n),
                      .received = std::vector<double>(n)});
  }
}

std::int64_t KvCache::largest_rows() const {
  std::int64_t largest = 0;
  for (const Head& head : heads_) largest = std::max(largest, head.n_rows);
  return largest;
}

std::int64_t KvCache::n_bytes() const {
  constexpr std::size_t kEntry = sizeof(std::int32_t) + sizeof(double) + sizeof(std::int32_t);
  std::size_t n = 0;
  for (const Head& head : heads_) n += head.positions.size() * kEntry;
  return row_bytes() + static_cast<std::int64_t>(n);
}

std::int64_t KvCache::add_rows(int head, std::int64_t n, std::int64_t first_position) {
  Head& to = at(head);
  const auto capacity = static_cast<std::int64_t>(to.positions.size());
  if (to.n_rows + n > capacity)
    throw InvalidInput(
        fmt::format("KV cache: {} rows do not fit into the {} that are free", n, capacity - to.n_rows));
  const auto first = static_cast<std::ptrdiff_t>(to.n_rows);
  std::iota(to.positions.begin() + first, to.positions.begin() + first + n,
            static_cast<std::int32_t>(first_position));
  std::fill_n(to.received.begin() + first, n, 0.0);
  std::fill_n(to.queries.begin() + first, n, 0);
  to.n_rows += n;
  return first;
}

void KvCache::retain(const RetainedRows& rows) {
  move_rows(rows);
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    Head& kept = heads_[head];
    move_entries(kept.positions, rows[head]);
    move_entries(kept.received, rows[head]);
    move_entries(kept.queries, rows[head]);
    kept.n_rows = static_cast<std::int64_t>(rows[head].size());
  }
}

void KvCache::copy_rows(const KvCache& from) {
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    Head& to = heads_[head];
    const Head& other = from.heads_[head];
    if (other.n_rows > static_cast<std::int64_t>(to.positions.size()))
      throw InvalidInput(
          fmt::format("KV cache: {} rows do not fit into one for {}", other.n_rows, to.positions.size()));
    std::copy_n(other.positions.begin(), other.n_rows, to.positions.begin());
    std::copy_n(other.received.begin(), other.n_rows, to.received.begin());
    std::copy_n(other.queries.begin(), other.n_rows, to.queries.begin());
    to.n_rows = other.n_rows;
  }
  copy_keys_and_values(from);
}

}  // namespace keyscope::capture
