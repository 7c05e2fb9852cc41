#include "capture/inference/kv_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

template <typename T>
void move_entries(std::vector<T>& entries, std::span<const std::int32_t> retained) {
  for (std::size_t to = 0; to < retained.size(); ++to) entries[to] = entries[retained[to]];
}

// The same of entries of the first rows alone.
void leave_first(std::vector<double>& entries, std::span<const std::int32_t> retained) {
  std::size_t n = 0;
  for (; n < retained.size() && std::cmp_less(retained[n], entries.size()); ++n)
    entries[n] = entries[retained[n]];
  entries.resize(n);
}

// How many rows are left of each group; of none, it is gone. Groups hold the oldest rows, one after another.
void leave_groups(std::vector<std::int32_t>& groups, std::span<const std::int32_t> retained) {
  std::size_t next = 0;
  std::int32_t end = 0;
  for (std::int32_t& group : groups) {
    end += group;
    const std::size_t first = next;
    while (next < retained.size() && retained[next] < end) ++next;
    group = static_cast<std::int32_t>(next - first);
  }
  std::erase(groups, 0);
}

// With memory for so many and no more.
template <typename T>
void resize_exactly(std::vector<T>& entries, std::int64_t n) {
  std::vector<T> exactly(n);
  std::copy_n(entries.begin(), std::min(std::ssize(entries), n), exactly.begin());
  entries = std::move(exactly);
}

}  // namespace

KvCache::KvCache(std::span<const std::int64_t> capacities, const analysis::CacheFormat& format,
                 bool heads_share)
    : format_(format), heads_share_(heads_share), heads_(capacities.size()) {
  set_rooms(capacities);
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
  if (to.n_rows + n > room(to))
    throw InvalidInput(
        fmt::format("KV cache: {} rows do not fit into the {} that are free", n, room(to) - to.n_rows));
  const std::int64_t first = to.n_rows;
  to.n_rows += n;
  note([this, head, n, first_position] {
    Head& known = heads_[head];
    const auto next = static_cast<std::ptrdiff_t>(known.n_known);
    std::iota(known.positions.begin() + next, known.positions.begin() + next + n,
              static_cast<std::int32_t>(first_position));
    std::fill_n(known.received.begin() + next, n, 0.0);
    std::fill_n(known.queries.begin() + next, n, 0);
    known.n_known += n;
  });
  return first;
}

void KvCache::add_value_norms(int head, std::span<const double> norms) {
  settle();
  std::vector<double>& noted = at(head).value_norms;
  noted.insert(noted.end(), norms.begin(), norms.end());
}

std::int64_t KvCache::grouped_rows(const Head& head) {
  return std::accumulate(head.groups.begin(), head.groups.end(), std::int64_t{0});
}

RowSpan KvCache::settled_rows(int head) const {
  settle();
  return at(head).settled;
}

analysis::CachedRows KvCache::stored_rows(int head) const {
  settle();
  const Head& of = at(head);
  const std::int64_t n_waiting = format_.groups_keys() ? of.n_rows - grouped_rows(of) : 0;
  return {of.n_rows, n_waiting, std::ssize(of.groups), head_dim(), element_bytes()};
}

void KvCache::rows_filled(int head, std::int64_t n) {
  if (!format_.quantises()) return;
  settle();
  Head& of = at(head);
  const RowSpan rows{of.n_rows - n, of.n_rows};
  of.settled = {};
  round_new(head, RowPart::kValues, rows, of.value_scale);
  if (format_.groups_keys())
    group_keys(head, rows);
  else
    round_new(head, RowPart::kKeys, rows, of.key_scale);
}

void KvCache::round_new(int head, RowPart part, RowSpan rows, float& scale) {
  const bool keys = part == RowPart::kKeys;
  if (format_.scales == analysis::CacheScales::kHead && scale == 0)
    scale = analysis::head_scale(largest_magnitude(head, part, rows), keys);
  round(head, part, rows, {format_, keys, scale});
}

void KvCache::group_keys(int head, RowSpan rows) {
  Head& of = at(head);
  const std::int64_t first = grouped_rows(of), n_waiting = of.n_rows - first;
  const std::int64_t n = n_waiting / analysis::kQuantisedGroup * analysis::kQuantisedGroup;
  if (n == 0) return;
  round(head, RowPart::kKeys, {first, first + n}, {format_, true});
  of.groups.insert(of.groups.end(), n / analysis::kQuantisedGroup, analysis::kQuantisedGroup);
  of.settled = {first, rows.first};  // fewer than a group: no more of them could wait
}

void KvCache::retain(const RetainedRows& rows) {
  settle();
  move_rows(rows);
  for (std::size_t head = 0; head < heads_.size(); ++head)
    heads_[head].n_rows = static_cast<std::int64_t>(rows[head].size());
  keep(rows);
}

void KvCache::moved(const std::vector<std::int64_t>& n_rows, std::function<RetainedRows()> rows) {
  constexpr std::size_t kMostWaiting = 8;  // with what they are known by, which lies on the device
  for (std::size_t head = 0; head < heads_.size(); ++head) heads_[head].n_rows = n_rows[head];
  waiting_.emplace_back([this, rows = std::move(rows)] { keep(rows()); });
  if (waiting_.size() > kMostWaiting) settle(kMostWaiting / 2);
}

void KvCache::keep(const RetainedRows& rows) const {
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    Head& kept = heads_[head];
    move_entries(kept.positions, rows[head]);
    move_entries(kept.received, rows[head]);
    move_entries(kept.queries, rows[head]);
    leave_first(kept.value_norms, rows[head]);
    leave_groups(kept.groups, rows[head]);
    kept.settled = {};
    kept.n_known = static_cast<std::int64_t>(rows[head].size());
  }
}

void KvCache::note(std::function<void()> what) const {
  if (waiting_.empty())
    what();
  else
    waiting_.push_back(std::move(what));
}

void KvCache::settle(std::size_t n_left) const {
  while (waiting_.size() > n_left) {
    waiting_.front()();  // what throws stays, and so does what depends on it
    waiting_.pop_front();
  }
}

std::int64_t KvCache::capacity() const {
  std::int64_t least = heads_.empty() ? 0 : room(heads_.front());
  for (const Head& head : heads_) least = std::min(least, room(head));
  return least;
}

std::int64_t KvCache::total_capacity() const {
  std::int64_t total = 0;
  for (const Head& head : heads_) total += room(head);
  return total;
}

bool KvCache::uneven_rooms() const {
  return heads_share_ &&
         std::ranges::any_of(heads_, [&](const Head& head) { return room(head) != room(heads_.front()); });
}

void KvCache::set_rooms(std::span<const std::int64_t> rooms) {
  std::int64_t first = 0;
  for (std::size_t head = 0; head < heads_.size(); first += rooms[head++]) {
    Head& of = heads_[head];
    of.first = first;
    resize_exactly(of.positions, rooms[head]);
    resize_exactly(of.queries, rooms[head]);
    resize_exactly(of.received, rooms[head]);
  }
}

void KvCache::make_room(std::int64_t n_rows) {
  settle();
  n_rows = std::max(n_rows, largest_rows());
  take_memory(n_rows);
  set_rooms(std::vector<std::int64_t>(heads_.size(), n_rows));
}

void KvCache::share_room(std::int64_t n) {
  const auto lacks = [&](const Head& head) { return head.n_rows + n > room(head); };
  if (!heads_share_ || std::ranges::none_of(heads_, lacks)) return;
  settle();
  std::vector<std::int64_t> n_rows;
  for (const Head& head : heads_) n_rows.push_back(head.n_rows);
  deal_rooms(n_rows);
}

// What is free beyond so many rows of each head is dealt out evenly.
void KvCache::deal_rooms(std::span<const std::int64_t> n_rows) {
  const auto n_heads = static_cast<std::int64_t>(n_rows.size());
  const std::int64_t n_free = total_capacity() - std::reduce(n_rows.begin(), n_rows.end());
  if (n_free < 0) return;
  std::vector<std::int64_t> rooms, first;
  for (std::int64_t head = 0, next = 0; head < n_heads; next += rooms[head++]) {
    first.push_back(next);
    rooms.push_back(n_rows[head] + n_free / n_heads + (head < n_free % n_heads ? 1 : 0));
  }
  move_heads(first);
  set_rooms(rooms);
}

void KvCache::copy_rows(const KvCache& from) {
  settle();
  from.settle();
  if (heads_share_) {
    std::vector<std::int64_t> n_rows;
    for (const Head& other : from.heads_) n_rows.push_back(other.n_rows);
    for (Head& head : heads_) head.n_rows = 0;  // what was there goes
    deal_rooms(n_rows);
  }
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    Head& to = heads_[head];
    const Head& other = from.heads_[head];
    if (other.n_rows > room(to))
      throw InvalidInput(fmt::format("KV cache: {} rows do not fit into one for {}", other.n_rows, room(to)));
    std::copy_n(other.positions.begin(), other.n_rows, to.positions.begin());
    std::copy_n(other.received.begin(), other.n_rows, to.received.begin());
    std::copy_n(other.queries.begin(), other.n_rows, to.queries.begin());
    to.value_norms = other.value_norms;
    to.n_rows = to.n_known = other.n_rows;
    to.groups = other.groups;
    to.settled = other.settled;
    to.key_scale = other.key_scale;
    to.value_scale = other.value_scale;
  }
  copy_keys_and_values(from);
}

}  // namespace keyscope::capture
