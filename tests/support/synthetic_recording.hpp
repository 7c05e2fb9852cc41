#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::session {

// How large an invented recording is.
struct SyntheticSize {
  int n_layers = 4;
  int n_kv_heads = 4;
  int group_size = 2;
  int head_dim = 16;
  std::int64_t n_tokens = 1024;
  std::int64_t block_size = 64;
  std::int64_t budget = 256;
  int n_runs = 3;               // none, keydiff, sink
  std::vector<int> heads = {};  // KV heads with rows; empty: all
};

// A recording computed on demand from token positions: two clouds of keys and one of queries per head, runs
// that keep the most recent rows and some old ones. No file, no model.
class SyntheticRecording : public recording::Recording {
 public:
  explicit SyntheticRecording(const SyntheticSize& size);

  std::shared_ptr<const recording::RecordingInfo> info() const override;
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override;
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override;
  RowMatrixF attention(int run, int layer, int query_head, std::int64_t first,
                       std::int64_t count) const override;
  RowMatrixF logits(int run) const override;

  // Reads of keys from now on fail, as those of a damaged file do.
  void break_keys() { broken_ = true; }
  void break_queries() { queries_broken_ = true; }
  std::int64_t key_reads() const { return key_reads_; }

 private:
  SyntheticSize size_;
  std::shared_ptr<const recording::RecordingInfo> info_;
  std::atomic<bool> broken_ = false, queries_broken_ = false;
  mutable std::atomic<std::int64_t> key_reads_ = 0;
};

}  // namespace keyscope::session
