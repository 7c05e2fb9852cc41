#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

// What the rows still present in one KV head's cache have received so far, kept for these rows only: memory
// grows with the cache, not with the context.
class AttentionSums {
 public:
  // Rows with what they received in all, ascending by position.
  struct Rows {
    std::vector<std::int32_t> position;
    std::vector<double> received;
    std::vector<std::int32_t> queries;
  };

  // The block's own rows [start, start + n_new) join with nothing received.
  void append(std::int32_t start, std::int32_t n_new);

  //   throws InvalidInput where the rows are not all present
  void add(const HeadAttention& block);

  // Takes rows out, with their sums, as they are final now.
  //   throws InvalidInput where the positions are not all present
  Rows evict(const std::vector<std::int32_t>& positions);

  const Rows& rows() const { return rows_; }
  void clear() { rows_ = {}; }

 private:
  Rows rows_;
};

// Overwrites the raw data of one run's datasets, block by block.
//
// Everything is written once, in its place, except keys that a later block quantises, and the attention sums,
// which grow with every prompt block.
// Sums of a row are final, and go to `attention_received` and `attention_queries`, when the row is evicted or
// with the last prompt block. Until then those of the rows still present stand in a journal of two slots,
//   partial_attention_received, partial_attention_queries: (2, n_kv_heads, n_prompt)
// one after another in ascending position (under the layer schedule of the first recorded layer only: the
// others are of no use before they are complete), and `partial_attention_blocks` (2) says after how many
// blocks each slot was written. A commit writes the slot that the last one did not, so that the slot of the
// blocks that are counted is whole whenever a kill comes.
class RunWriter {
 public:
  RunWriter(hdf5::Group run, std::shared_ptr<const RecordPlan> plan, const RunPlan& about);

  //   record: what comes next, and checked (see BlockOrder)
  //   throws InvalidInput where it evicts rows that are not there, FileError when it cannot be written
  void write_block(const BlockRecord& record);
  void write_routing(const RoutingRecord& record);  // checked, too
  void write_prompt_result(const PromptResult& result);
  void write_generated(const TokenText& generated);

  // Brings the journal up to date: to be called before the blocks so far are counted.
  void write_journal();
  void count_blocks();  // raises `blocks_done`; of a layer by itself, what is recorded of that layer

  // Puts the sums of an unfinished prompt where those of a finished one stand.
  void write_unfinished_sums();

  // The run's sizes so far.
  RunExtent extent() const;

 private:
  struct Layer {
    std::optional<hdf5::Dataset> keys, queries, values, value_norms, attention;
    hdf5::Dataset evicted_at, evicted_margin, attention_received, attention_queries, attention_last;
    hdf5::Dataset entropy, window, gini, top_share;
    std::optional<hdf5::Dataset> sink, sink_logit;
    std::optional<hdf5::Dataset> held_bytes, packed_bytes;  // of a quantised cache
    std::optional<hdf5::Dataset> partial_received, partial_queries;
    std::vector<AttentionSums> sums;  // per KV head; empty after the prompt
    std::int64_t blocks_done = 0;
  };
  struct Routing {
    hdf5::Dataset expert, weight, entropy;
  };

  Layer open_layer(int layer) const;
  Layer& layer(std::size_t index);
  std::size_t layer_index(int layer) const;
  void write_sinks(Layer& layer, const BlockRecord& record, const LayerBlock& block);
  void write_statistics(Layer& layer, const BlockRecord& record, const LayerBlock& block);
  void count_layer(std::size_t index);
  void write_layer(Layer& layer, const BlockRecord& record, const LayerBlock& block);
  void write_rows(const BlockRecord& record, Layer& layer, const LayerBlock& block);
  void write_settled(const SettledKeys& head, hsize_t place, hsize_t head_dim, Layer& layer);
  void write_last_attention(Layer& layer, const LayerBlock& block);
  void write_evictions(Layer& layer, const BlockRecord& record, const LayerBlock& block);
  void write_remaining_sums(Layer& layer);
  void add_generated(std::int32_t id, const std::string& text);
  bool in_prompt() const { return blocks_done_ < about_.n_prompt_blocks; }

  hdf5::Group group_;
  std::shared_ptr<const RecordPlan> plan_;
  RunPlan about_;
  std::vector<std::optional<Layer>> layers_;     // open while they are written
  std::vector<std::optional<Routing>> routing_;  // likewise
  hdf5::Dataset block_start_, block_ms_, counter_, journal_blocks_;
  std::optional<hdf5::Dataset> layer_counter_, complete_layers_;  // where layers are written one by one
  std::size_t layer_written_ = 0;                                 // the last one
  std::int64_t n_complete_layers_ = 0;
  hdf5::Dataset generated_ids_, generated_text_, generated_offset_;
  std::int64_t blocks_done_ = 0;
  std::int64_t n_tokens_ = 0;
  hsize_t journal_slot_ = 0;
  TokenText generated_;
  std::int64_t n_top_ = 0;
  std::int64_t n_scored_ = 0;
};

}  // namespace keyscope::recording
