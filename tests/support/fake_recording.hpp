#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// A recording made by hand: what is not set is zero. Heads are indexed [run][layer][head].
class FakeRecording : public recording::Recording {
 public:
  // Runs of `n_tokens` prompt tokens in blocks of `block_size`, with one text byte per token.
  FakeRecording(int n_layers, int n_heads, int n_kv_heads, int head_dim, std::int64_t n_tokens,
                std::int64_t block_size);

  // A further run; its keys and queries are zero and nothing is evicted until they are set.
  int add_run(const std::string& policy, std::int64_t budget);

  RowMatrixF& keys_of(int run, int layer, int kv_head) { return keys_[{run, layer, kv_head}]; }
  RowMatrixF& queries_of(int run, int layer, int query_head) { return queries_[{run, layer, query_head}]; }
  RowMatrixF& attention_of(int run, int layer, int query_head) {
    return attention_[{run, layer, query_head}];
  }
  std::vector<std::int32_t>& evicted_at(int run, int layer, int kv_head) {
    return evicted_at_[{run, layer, kv_head}];
  }
  recording::RecordingInfo& edit_info() { return *info_; }

  // Clouds of keys and queries that look like a head's, and evictions that keep `budget` rows of the run.
  void fill(unsigned seed);

  std::shared_ptr<const recording::RecordingInfo> info() const override { return info_; }
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override;
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override;
  RowMatrixF attention(int run, int layer, int query_head, std::int64_t first,
                       std::int64_t count) const override;
  RowMatrixF logits(int run) const override;

 private:
  using Key = std::array<int, 3>;
  std::shared_ptr<recording::RecordingInfo> info_;
  std::int64_t n_tokens_, block_size_;
  std::map<Key, RowMatrixF> keys_, queries_, attention_;
  std::map<Key, std::vector<std::int32_t>> evicted_at_;
};

// Four tokens in blocks of two, head_dim 1 (scale 1), all logits 0 but for query head 1 and key 0, whose
// logit is ln 3. Key 1 is evicted after block 0, so queries 2 and 3 see keys {0, 2} and {0, 2, 3}.
FakeRecording one_eviction();

}  // namespace keyscope::figures
