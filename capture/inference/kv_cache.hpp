#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "analysis/row_quantisation.hpp"

namespace keyscope::capture {

// Per KV head the rows that are kept of it, ascending.
using RetainedRows = std::vector<std::vector<std::int32_t>>;

enum class RowPart { kKeys, kValues };

// Rows [first, end) of a head.
struct RowSpan {
  std::int64_t first = 0, end = 0;

  std::int64_t size() const { return end - first; }
};

// The cache of one layer: per KV head its own rows in time order, each with the position its token really
// has. Memory is taken once, for as many rows as each head will ever hold, or anew where nobody knows that
// ahead (`make_room`). Heads among which the rows of their layer are dealt have one memory for as many as
// they hold together, where they move aside for each other (`share_room`). What is known of the rows lies
// here, on the host; the rows themselves lie where the model computes, with the arithmetic. A device may have
// moved rows on before the host knows which: how many there are is known at once, which they are when
// somebody asks.
//
// Where the cache quantises, rows are rounded as they come, and lie rounded in the model's dtype. Keys with
// scales by channel first wait, unrounded: as soon as kQuantisedGroup of a head's rows wait, the oldest of
// them become a group, and are rounded once and for all. Rows that are evicted leave the rows that wait, or
// their group, which is not quantised again.
class KvCache {
 public:
  // capacities: rows of each KV head; the same of all where they share their memory, which is for the sum
  explicit KvCache(std::span<const std::int64_t> capacities, const analysis::CacheFormat& format = {},
                   bool heads_share = false);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  virtual ~KvCache() = default;

  int n_heads() const { return static_cast<int>(heads_.size()); }
  std::int64_t n_rows(int head) const { return at(head).n_rows; }
  std::int64_t largest_rows() const;  // of any head
  std::int64_t n_bytes() const;       // allocated: rows, positions, attention received

  std::span<const std::int32_t> positions(int head) const {
    settle();
    return {at(head).positions.data(), static_cast<std::size_t>(n_rows(head))};
  }

  // Per row of one head: the attention it has received from all queries so far (mean over the group), and how
  // many queries could see it.
  std::span<double> attention_received(int head) { return rows_of(&Head::received, head); }
  std::span<std::int32_t> attention_queries(int head) { return rows_of(&Head::queries, head); }

  // What the output projection makes of the values of a head's first rows (Transformer::value_norms), as far
  // as that was noted; it goes with its rows.
  std::span<const double> value_norms(int head) const {
    settle();
    return at(head).value_norms;
  }
  // Notes it of the rows after those, as many as there are entries.
  void add_value_norms(int head, std::span<const double> norms);

  const analysis::CacheFormat& format() const { return format_; }
  // What a head's rows are counted by, in bytes (see analysis::packed_bytes).
  analysis::CachedRows stored_rows(int head) const;
  // Rows that were there before the head's last ones, and whose keys were rounded with them.
  RowSpan settled_rows(int head) const;

  // Rounds the last n rows of a head, now that they are filled, and the keys whose group they fill. Several
  // heads may be rounded at the same time.
  void rows_filled(int head, std::int64_t n);

  // Keeps only these rows of every head.
  void retain(const RetainedRows& rows);

  // Has memory for so many rows of each head, from now on; no fewer than there are.
  void make_room(std::int64_t n_rows);
  // Where heads share their memory: has room for n more rows of each, if that many are free of all.
  void share_room(std::int64_t n);
  std::int64_t capacity() const;  // rows of the head that has memory for the fewest; 0 without heads

  // Holds the same rows as another cache of the same layer and arithmetic, with all that is known of them.
  //   throws InvalidInput where they do not fit
  void copy_rows(const KvCache& from);

 protected:
  // Makes room in one head for the rows of tokens first_position, first_position + 1, … and says where the
  // first of them goes.
  //   throws InvalidInput where they do not fit
  std::int64_t add_rows(int head, std::int64_t n, std::int64_t first_position);

  // Where a head's rows begin, counted in rows of all heads, one head's room after the other's.
  std::int64_t first_row(int head) const { return at(head).first; }
  std::int64_t total_capacity() const;
  bool uneven_rooms() const;  // heads share their memory, and have room for different numbers of rows

  // Notes that of every head only so many rows are left, which have been moved: `rows` says which, once.
  void moved(const std::vector<std::int64_t>& n_rows, std::function<RetainedRows()> rows);

 private:
  virtual std::int64_t row_bytes() const = 0;                // allocated for keys and values
  virtual void move_rows(const RetainedRows& retained) = 0;  // up to where they belong
  virtual void copy_keys_and_values(const KvCache& from) = 0;
  virtual void take_memory(std::int64_t n_rows) = 0;  // for so many of each head, into which its rows go
  virtual void move_heads(std::span<const std::int64_t> first) = 0;  // to where they begin from now on
  virtual std::int64_t head_dim() const = 0;
  virtual std::int64_t element_bytes() const = 0;
  // Rounds rows of a head as analysis::round_rows does.
  virtual void round(int head, RowPart part, RowSpan rows, const analysis::RowRounding& rounding) = 0;
  virtual float largest_magnitude(int head, RowPart part, RowSpan rows) const = 0;

  struct Head {
    std::vector<std::int32_t> positions, queries;
    std::vector<double> received;
    std::vector<double> value_norms;       // of the first rows
    std::int64_t n_rows = 0, n_known = 0;  // all, and those that the host knows of
    std::int64_t first = 0;
    std::vector<std::int32_t> groups;  // of keys, in order of time: how many rows are left of each
    RowSpan settled;
    float key_scale = 0, value_scale = 0;  // of a head's rows; 0: there were none yet
  };
  static std::int64_t grouped_rows(const Head& head);
  static std::int64_t room(const Head& head) { return std::ssize(head.positions); }
  void deal_rooms(std::span<const std::int64_t> n_rows);
  void set_rooms(std::span<const std::int64_t> rooms);
  void round_new(int head, RowPart part, RowSpan rows, float& scale);
  void group_keys(int head, RowSpan rows);
  Head& at(int head) { return heads_[head]; }
  const Head& at(int head) const { return heads_[head]; }
  template <typename T>
  std::span<T> rows_of(std::vector<T> Head::*entries, int head) {
    settle();
    return {(at(head).*entries).data(), static_cast<std::size_t>(n_rows(head))};
  }
  void keep(const RetainedRows& rows) const;
  void note(std::function<void()> what) const;  // at once, or after what waits
  void settle(std::size_t n_left = 0) const;    // does what waits, but for the last ones

  analysis::CacheFormat format_;
  bool heads_share_;
  // What is to be noted of rows, in order, once the host knows.
  mutable std::deque<std::function<void()>> waiting_;
  mutable std::vector<Head> heads_;
};

}  // namespace keyscope::capture
