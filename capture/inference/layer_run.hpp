#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/attention.hpp"
#include "capture/inference/eviction.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/inference/layer_arithmetic.hpp"
#include "capture/inference/watched_rows.hpp"
#include "capture/model/delta_net.hpp"
#include "capture/model/device_work.hpp"
#include "capture/model/transformer.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

using recording::kRecordedWindow;

// What becomes of attention over a whole prompt, by true position, evicted rows included.
class HeadStatistics {
 public:
  HeadStatistics(std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t n_prompt);

  // Adds a block's weights on rows: column sums per query head, and sums over those of its queries that are
  // among the prompt's last kRecordedWindow, per query head, if there are any.
  void add(const RowPositions& positions, const PerRow<double>& column_sums,
           const PerRow<double>* window_sums);

  // Adds the statistics of the whole prompt to a record.
  void finish(recording::LayerBlock& record) const;

 private:
  std::int64_t n_heads_, n_kv_heads_, n_prompt_;
  std::vector<double> received_;  // (n_heads, n_prompt)
  std::vector<double> window_;    // (n_kv_heads, n_prompt)
};

// What is recorded of a layer; nothing at all where the layer is not recorded.
struct LayerRecording {
  bool layer = false;
  bool keys = false;
  bool queries = false;
  bool values = false;
  bool value_norms = false;  // where the layer has keys of its own
  bool attention = false;
  recording::RecordedHeads heads = {};
};

// Queries of tokens first, …, first + n - 1 that see the row of a position: from its own token's to the
// window's end; window 0: there is none.
std::int32_t queries_that_see(std::int64_t position, std::int64_t first, std::int64_t n, std::int64_t window);

// Of some heads the first `n` rows, as float32: (heads.size(), n, head_dim).
std::vector<float> float_rows(const HostRows& rows, const std::vector<int>& heads, std::int64_t n);

// What is counted of all blocks from the first, for policies that a run will take up later.
struct Counts {
  bool attention = false;  // what rows receive
  bool queries = false;    // moments of the queries

  void add(const analysis::PolicyNeeds& needs) {
    attention |= needs.attention_received;
    queries |= needs.query_moments;
  }
};

// One layer of one run, the same for all its blocks.
struct LayerPlan {
  int layer = 0;
  std::int64_t n_prompt = 0;
  std::int64_t block_size = 0;
  EvictionRule eviction;
  std::vector<std::int64_t> capacities;  // rows of each KV head's cache; empty: the layer has no keys
  bool oracle = false;                   // nothing is evicted before the whole prompt has been read
  bool cache_positions = false;          // rows are rotated by their place in the cache
  analysis::CacheFormat cache_format = {};
  Counts counts = {};  // beyond what the policy asks for
  // Layers that borrow this one's keys come to the prompt only when it has read all of it.
  bool lends_whole_prompt = false;
  LayerRecording recording;
  std::span<const std::int32_t> watched = {};  // positions, ascending, of which `lost` tells; must outlive it
};

// Where a layer's time went, in seconds.
struct LayerTimes {
  double all = 0;
  double attention = 0;  // with the statistics that come from it
  double eviction = 0;   // scoring, selection, compaction
};

// Tokens that follow one another.
struct TokenSpan {
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;
};

// A run's cache and statistics in one layer. Runs any number of a prompt's blocks at a time, so that matrix
// products are as large as the schedule allows, while attention and eviction go block by block.
class LayerRun {
 public:
  // lender: the same run in the layer whose keys this one borrows, which has always been run before it; null
  // where it has its own. What it borrows, it holds and evicts as the lender does.
  LayerRun(const Transformer& transformer, LayerPlan plan, const LayerRun* lender = nullptr);

  // Runs tokens through the layer, block by block; hidden (n, hidden_size) becomes the layer's output.
  // `before_block` is called ahead of each block and may throw; `after_block` gets what is recorded of each,
  // nothing where the layer is not recorded, and is called for the last one by finish_records where that is
  // on its way from a device.
  //   throws InvalidInput naming the layer where attention meets NaN or Inf, or later: see `check`
  //   returns how the layer's experts were chosen for all of them
  using BeforeBlock = std::function<void()>;
  using AfterBlock = std::function<void(std::int64_t n_tokens, recording::LayerBlock record)>;
  Routing run(const LayerWeights& weights, at::Tensor& hidden, const TokenSpan& tokens,
              const BeforeBlock& before_block, const AfterBlock& after_block);

  // The same of several runs at once, in one and the same layer: their tokens lie in `hidden` one part after
  // the other, and go through the matrix products together. What each gets is what it would get alone, but
  // for the rounding of those operations of LibTorch that take rows together.
  struct Part {
    LayerRun& run;
    TokenSpan tokens;
    const BeforeBlock& before_block;
    const AfterBlock& after_block;
  };
  static Routing run(const LayerWeights& weights, at::Tensor& hidden, std::span<const Part> parts);

  // Leaves it open by which of these rules the next block is followed, since all of them have it in common:
  // what their policies will look at of its attention is kept, and nothing is evicted after it before `fork`
  // or `follow` says by which. Nothing may be recorded of the run, and `run` gets one block.
  void leave_open(std::vector<EvictionRule> rules);

  // Another run that goes on from here by itself, under a plan of its own: in the same layer, with as many
  // rows of capacity as there are at least. Nothing may be recorded of either. Where an eviction was left
  // open, the new run evicts by its plan's rule.
  //   lender: as the constructor has it, of the other run
  std::unique_ptr<LayerRun> fork(LayerPlan plan, const LayerRun* lender = nullptr) const;
  // Goes on under another rule. Evicts by it where that was left open.
  void follow(EvictionRule eviction, Counts counts);

  // Evicts of all layers of a run together, where their rule wants that and the block before left it open.
  //   returns what went of each, as many as there are layers; an empty list where nothing had to go
  static std::vector<LayerEviction> evict_together(std::span<const std::unique_ptr<LayerRun>> layers);
  // Of what is in the cache now, in bytes as it is held and as it would be packed.
  void record_bytes(recording::LayerBlock& record) const;
  // From this position on tokens are generated.
  void end_prompt(std::int64_t position) { plan_.eviction.n_prompt = position; }

  const KvCache& cache() const { return arithmetic_->cache(); }  // of no heads where the layer has no keys
  std::int64_t n_bytes() const;  // allocated for the cache, or for the state of a layer without keys
  std::int64_t peak_rows() const { return peak_rows_; }  // of any KV head, measured before eviction
  LayerTimes times();                                    // until now
  std::int64_t stored_bytes() const;  // of the rows that are there, as analysis::packed_bytes counts them
  std::span<const LostRow> lost() const { return watched_.lost(); }  // of the watched rows
  // Says now what was left to be said of earlier blocks: that attention met NaN or Inf.
  //   throws InvalidInput naming layer and tokens
  void check();

  // Hands out the records that wait for a device, but for the last n_left: `run` does so for all blocks
  // before its last, so that the device always has something to do meanwhile, and leaves that one, with what
  // its `after_block` refers to, to its caller.
  //   throws InvalidInput as `run` does
  void finish_records(std::size_t n_left = 0);

 private:
  struct Block;
  // A block of which the host has not seen all that is recorded of it.
  struct Unfinished {
    std::int64_t first_position = 0, n = 0;
    bool prompt = true, last_of_prompt = false;
    recording::LayerBlock record{};
    ExpectedRows rows{};
    std::function<AttentionStatistics()> statistics{};             // null: none are recorded
    std::function<LayerEviction(const RowPositions&)> eviction{};  // null: nothing was evicted
    AfterBlock after_block{};

    std::int64_t end() const { return first_position + n; }
  };
  // Tokens that went through a layer whose keys others borrow: what was projected of them, and what was
  // evicted after each of their blocks.
  struct Lent {
    std::int64_t first_position = 0;
    at::Tensor keys{}, values{};
    std::vector<LayerEviction> evictions{};
  };
  // What attention gave, (n, n_heads · head_dim), and what layers without it mix, (n, values).
  static at::Tensor attend(const LayerWeights& weights, const at::Tensor& hidden,
                           std::span<const Part> parts);
  static at::Tensor recur(const LayerWeights& weights, const at::Tensor& hidden, std::span<const Part> parts);
  static void borrow(std::span<const Part> parts, Projections& projections);
  static std::vector<LayerEviction> evict_one_set(std::span<LayerRun* const> open);
  static std::vector<LayerEviction> evict_as_dealt(std::span<LayerRun* const> open);
  void make_room(std::int64_t n_new);
  void give_up_room();
  void lend(const Projections& projections, std::int64_t offset, const TokenSpan& tokens);
  const Lent& lent(std::int64_t position) const;
  void run_block(Block& block);
  void take_through(Block& block);
  int group_size() const;  // query heads that share a KV head
  AttentionWants wants(const Block& block) const;
  // How many of the block's last queries the policies want as they are.
  std::int64_t wanted_queries(const Block& block) const;
  void count_queries(const Block& block);
  void weigh_values(Block& block);
  BlockStatistics statistics_of(Block& block) const;
  bool may_record_late() const;
  std::int64_t queries_in_recorded_window(const Unfinished& block) const;
  void want_weights(Unfinished& block, AttentionWants& wanted) const;
  void attend(Block& block);
  void count_attention(Block& block);
  void record_rows(Unfinished& block) const;
  void record_attention(Unfinished& block, const RowPositions& positions,
                        const AttentionStatistics& statistics, PerRow<double> received);
  AttentionStatistics arrived(const Unfinished& block) const;
  LayerEviction told(const Unfinished& block, const RowPositions& positions);
  void finish(Unfinished& block);
  void evict(Block& block);
  void evict_unseen(Block& block, const BlockStatistics& statistics);
  std::vector<recording::HeadEvictions> drop_past_window(const Block& block, BlockStatistics& statistics);
  void evict_after(BlockStatistics block);

  const Transformer& transformer_;
  LayerPlan plan_;
  const LayerRun* lender_;
  bool lends_;
  AttentionRules rules_;
  std::unique_ptr<LayerArithmetic> arithmetic_;
  RecurrentState state_;  // undefined where the layer attends
  HeadStatistics statistics_;
  bool records_late_ = false;
  std::deque<Unfinished> unfinished_;
  std::vector<std::vector<std::int32_t>> recorded_positions_;  // of rows, where records wait: per KV head
  analysis::Rotation rotation_;
  std::vector<EvictionRule> open_rules_;
  std::optional<BlockStatistics> open_block_;                     // after which nothing has been evicted yet
  std::vector<Lent> lent_;                                        // ascending
  LayerEviction late_eviction_;                                   // by `fork` or `follow`
  double cake_share_ = -std::numeric_limits<double>::infinity();  // its logarithm, as last measured
  WatchedRows watched_;
  std::int64_t peak_rows_ = 0;
  WorkTime all_time_, attention_time_, eviction_time_;
};

}  // namespace keyscope::capture
