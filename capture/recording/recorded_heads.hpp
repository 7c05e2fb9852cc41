#pragma once

#include <string>
#include <vector>

namespace keyscope::recording {

// The KV heads whose rows are recorded: their keys and values, and the queries and attention weights of the
// query heads that read them. A dataset of rows has the recorded heads only, in ascending order, so that a
// head's place in it is not its index in the model. Statistics are recorded of all heads, always.
struct RecordedHeads {
  std::vector<int> kv_heads = {};  // the model's indices, ascending; empty: all

  bool all() const { return kv_heads.empty(); }
  bool has(int kv_head) const { return place(kv_head) >= 0; }
  int count(int n_kv_heads) const { return all() ? n_kv_heads : static_cast<int>(kv_heads.size()); }
  int first() const { return all() ? 0 : kv_heads.front(); }
  std::vector<int> list(int n_kv_heads) const;  // with `all` written out

  // Where a head's rows lie along a dataset's first axis; -1: they were not recorded.
  int place(int kv_head) const;
  int query_place(int query_head, int group_size) const;

  // "KV head 3 was not recorded; recorded are 0, 2".
  std::string refusal(int kv_head) const;

  bool operator==(const RecordedHeads&) const = default;
};

}  // namespace keyscope::recording
