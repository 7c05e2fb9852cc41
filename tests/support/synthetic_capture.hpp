#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/recording/records.hpp"

namespace keyscope::recording {

// A capture without a model: every number follows from its place, so that any part of it can be made again.
struct SyntheticOptions {
  int n_layers = 3;
  std::vector<int> layers = {0, 2};
  std::vector<int> heads = {};  // KV heads with rows; empty: all
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 8;
  std::int64_t n_prompt = 50;
  std::int64_t block_size = 8;
  std::int64_t budget = 12;
  std::int64_t max_generated = 6;
  std::int64_t n_generated = 4;  // of the second run: it meets an end-of-text token
  bool values = true;
  bool value_norms = false;
  bool attention = true;
  bool logits = true;
  StoreType store = StoreType::kFloat32;
  bool compress = false;
  bool next_ids = true;           // blocks tell what was generated from them
  bool sinks = false;             // query heads have learned sinks
  std::vector<int> keyless = {};  // layers without keys
  std::vector<int> experts = {};  // layers with 8 experts, of which each token goes to 2
};

// Every query head has a learned sink, layer 1 has no keys, it and layer 2 have experts, and values have
// norms.
SyntheticOptions sinks_and_experts();

class SyntheticCapture {
 public:
  explicit SyntheticCapture(const SyntheticOptions& options = {});

  std::shared_ptr<const RecordPlan> plan() const { return plan_; }
  std::int64_t n_blocks(int run) const;
  std::shared_ptr<const BlockRecord> block(int run, int block) const;
  std::shared_ptr<const RoutingRecord> routing(int run, int block, int layer) const;
  PromptResult prompt_result(int run) const;
  TokenText generated(int run) const;

  // Begins, and sends `n_blocks` blocks of all runs in a row (all by default) with what goes between them.
  void send(RecordSink& sink, std::int64_t n_blocks = -1) const;

 private:
  std::int64_t n_generated(int run) const { return run == 0 ? options_.max_generated : options_.n_generated; }
  LayerBlock layer_block(int run, int block, int layer, std::int32_t start, std::int32_t n_new) const;
  std::vector<std::int32_t> present(int run, int block, int layer, int kv_head) const;
  std::vector<std::int32_t> evicted(int run, int block, int layer, int kv_head) const;
  std::int32_t block_start(int block) const;

  SyntheticOptions options_;
  std::shared_ptr<const RecordPlan> plan_;
};

}  // namespace keyscope::recording
