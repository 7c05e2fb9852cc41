#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

// One run as it stands in a recording.
struct RunInfo {
  RunPlan plan;
  std::vector<std::int32_t> block_start;  // (blocks_done)
  std::vector<float> block_ms;            // (blocks_done)
  std::int64_t blocks_done = 0;  // blocks that can be relied upon; all of them in a complete recording
  std::int64_t n_tokens = 0;     // tokens seen by those blocks
  TokenText generated;
  std::vector<float> top_logits;
  std::vector<std::int32_t> top_ids;
  std::int64_t n_scored = 0;  // rows of `logits`; 0: not recorded
};

struct LayerHead {
  int layer = 0;
  int kv_head = 0;
};

struct RecordingInfo {
  std::string source;  // the file's path, or a word for a live one
  Provenance provenance;
  bool complete = false;
  ModelInfo model;
  TokenText prompt;
  std::vector<int> layers;               // recorded ones that have keys, ascending
  std::vector<int> keyless_layers = {};  // recorded ones that have none (recurrent mixers), ascending
  // Of both, those with experts, of which each token goes to `experts_per_token`.
  std::vector<int> expert_layers = {};
  int n_experts = 0, experts_per_token = 0;
  bool sinks = false;  // every query head has a learned sink, which takes part in the softmax without a row
  RecordedHeads heads =
      {};  // that have keys, queries, values and attention weights, as far as these are there
  StoreType store = StoreType::kFloat32;  // of the rows in the file: the coarsest of them
  bool keys = false;
  bool queries = false;
  bool values = false;
  bool value_norms = false;  // of all heads, in layers that have keys of their own
  bool attention = false;
  bool window_sums = false;  // in all layers with keys: see AttentionStatistics::window
  std::vector<RunInfo> runs;

  std::int64_t n_prompt() const { return prompt.size(); }
  // Those that a run has read.
  std::int64_t n_prompt_read(int run) const { return std::min(n_prompt(), runs.at(run).n_tokens); }
  bool has_keys(int layer) const { return !std::ranges::binary_search(keyless_layers, layer); }
  bool has_value_norms(int layer) const { return value_norms && model.lender(layer) == layer; }
  std::vector<int> all_layers() const;  // with keys or without, ascending
  // KV heads of a layer whose rows are recorded, ascending; and of all layers with keys, those whose
  // statistics are, which are all, and those whose rows are.
  std::vector<int> kv_heads(int layer) const { return heads.list(model.heads(layer).n_kv_heads); }
  std::vector<LayerHead> all_heads() const;
  std::vector<LayerHead> recorded_heads() const;
  int run_index(std::string_view name) const;  // -1 if there is none of that name
};

// Why there is nothing to see of a layer: "layer 3 has no keys: its mixer is recurrent; layers with keys: 7,
// 11"; empty where there is.
std::string layer_refusal(const RecordingInfo& info, int layer);

// Throws FileError where the layer was not recorded, or has no keys.
void require_keys_of(const RecordingInfo& info, int layer);

// Throws FileError where the layer has no such head.
void check_kv_head(const RecordingInfo& info, int layer, int kv_head);

// Where a head's rows lie along the first axis of the datasets that hold them.
//   throws FileError where there is no such head, or its rows were not recorded
int kv_row_place(const RecordingInfo& info, int layer, int kv_head);
int query_row_place(const RecordingInfo& info, int layer, int query_head);

// What happened to the rows of one KV head in one run. All (n_tokens).
struct HeadTrace {
  std::vector<std::int32_t> evicted_at;    // block at whose end the row was evicted; -1: still there
  std::vector<float> evicted_margin;       // NaN if never evicted, or if all retained rows were forced
  std::vector<double> attention_received;  // from prompt queries, mean over the group; 0 after the prompt
  std::vector<std::int32_t> attention_queries;
  std::vector<float> attention_last;  // from the last prompt query
  // ‖W_O v‖₁ of the token's value, mean over the group's query heads; empty where it was not recorded.
  std::vector<float> value_norms = {};
};

// Statistics of attention over a run's prompt in one layer. Empty where it was not recorded; NaN where the
// prompt was not read so far.
struct AttentionStatistics {
  RowMatrixF entropy;  // (n_heads, n_prompt) of each query's weights, in nats
  RowMatrixF window;   // (n_kv_heads, n_tokens) weights of the prompt's last 32 queries, summed, group mean
  std::vector<double> gini;       // (n_heads) of the attention that the prompt's positions received
  std::vector<double> top_share;  // (n_heads) the share of it that the 1 % of them with the most have
  RowMatrixD sink;  // (n_heads, n_prompt_blocks) what each block's queries gave to the learned sinks, summed
  // (n_kv_heads) of a quantised cache once the prompt was read: bytes of its keys and values as they were
  // held, and as a packed cache would hold them. Empty elsewhere; 0 where the prompt was not read so far.
  std::vector<std::int64_t> held_bytes, packed_bytes;
};

// Where a layer's router sent the tokens of a run. Empty where it was not recorded.
struct LayerRouting {
  // (n_tokens, k) the likeliest first; -1: not known
  Eigen::Matrix<std::int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> experts;
  RowMatrixF weights;          // (n_tokens, k) what the experts' outputs were multiplied by
  std::vector<float> entropy;  // (n_tokens) of the router's shares of all experts, in nats
};

// A recording to read from: a file, or a capture that is still running. Reads copy, and may be called from
// any thread. `run` indexes RecordingInfo::runs. Every reader
//   throws FileError when the bytes are damaged or the dataset was not recorded, naming file and dataset
class Recording {
 public:
  virtual ~Recording() = default;

  // A snapshot; of a live recording it grows from call to call.
  virtual std::shared_ptr<const RecordingInfo> info() const = 0;

  // Rows [first, first + count) of the run's tokens; count < 0: all that were seen. Heads go by the model's
  // index, whichever were recorded.
  virtual RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first = 0,
                          std::int64_t count = -1) const = 0;
  virtual RowMatrixF queries(int run, int layer, int query_head, std::int64_t first = 0,
                             std::int64_t count = -1) const = 0;
  // Of all query heads of a KV head's group, head after head: (group_size · count, head_dim).
  virtual RowMatrixF group_queries(int run, int layer, int kv_head, std::int64_t first,
                                   std::int64_t count) const;
  virtual RowMatrixF values(int run, int layer, int kv_head, std::int64_t first = 0,
                            std::int64_t count = -1) const = 0;
  virtual HeadTrace trace(int run, int layer, int kv_head) const = 0;

  virtual AttentionStatistics statistics(int /*run*/, int /*layer*/) const { return {}; }

  // (n_heads) the scores of a layer's learned sinks; empty where it has none, or they are not known yet.
  virtual std::vector<float> sink_logits(int /*run*/, int /*layer*/) const { return {}; }

  // Of a layer with experts, with keys or without.
  virtual LayerRouting routing(int /*run*/, int /*layer*/) const { return {}; }

  // Weights of rows [first, first + count) of query head `query_head`: (count, n_tokens). A replayed run has
  // none of its own, whatever RecordingInfo::attention says.
  virtual RowMatrixF attention(int run, int layer, int query_head, std::int64_t first = 0,
                               std::int64_t count = -1) const = 0;

  // (n_scored, vocab) logits of the last prompt positions; no rows if not recorded.
  virtual RowMatrixF logits(int run) const = 0;
};

// A file, and which of its entries is meant.
struct EntryPath {
  std::string file, entry;  // no entry: none was named
};

// Takes "FILE::ENTRY" apart; where there is a file of that very name, it is meant.
EntryPath entry_path(const std::string& path);

// Opens a recording, or the `.part` of one that was killed, up to its last complete block.
//   path: a file, or "FILE::ENTRY" where it holds several: see recording_entries
//   throws FileError where the file is not a readable recording: damaged, foreign, with links out of the
//   file, or with shapes that contradict each other
std::shared_ptr<Recording> open_recording(const std::string& path);

// The entries of a file that are recordings, "entry" first, which is the one that is meant where none is
// named.
//   throws FileError where it is no readable HDF5 file
std::vector<std::string> recording_entries(const std::string& file);

// Positions of the rows that were present after block `block`: seen by then, and not evicted by then.
//   evicted_at: (n_tokens); n_seen: tokens seen at the end of that block; ascending result
std::vector<std::int32_t> retained_positions(std::span<const std::int32_t> evicted_at, std::int64_t n_seen,
                                             std::int64_t block);

// Tokens seen by the end of block `block` of a run.
std::int64_t tokens_seen(const RunInfo& run, std::int64_t block);

// Called on the thread that opens a recording, with the layers of all its runs that were checked, first none,
// and how many there are. What it throws ends the opening. Likewise of other work on a whole recording.
using OpenProgress = std::function<void(std::int64_t n_checked, std::int64_t n_layers)>;

// As open_recording(path), which checks what every layer of every run declares: of a large model on a slow
// disk this takes its time.
//   progress: may be empty
std::shared_ptr<Recording> open_recording(const std::string& path, const OpenProgress& progress);

// Writes a recording while it happens, from one I/O thread of its own, by the `.part` protocol: all metadata
// before the first block, raw data and then the counter per block, each fsynced, a rename at the end. A call
// returns when what was handed in before it is on the disk: a kill loses at most what is in flight.
//   path: the recording's final place; `path` + ".part" is what is written to once it can be read
//   replace: whether an existing file may be replaced: by the rename at the end, and only by a whole
//   recording, what was cut short stays in the `.part`; otherwise throws FileError if `path` exists, and from
//   any call once writing has failed (a full disk, say): what was committed by then stays readable in the
//   `.part` file
// A `.part` left by an earlier, killed capture is never overwritten unless `replace` is given.
std::unique_ptr<RecordSink> make_recording_writer(const std::filesystem::path& path, bool replace);

// A recording that lies in memory: the sink of a live capture and, at the same time, what the window reads.
// Safe to read from any thread while the capture goes on.
class MemoryRecording : public RecordSink, public Recording {
 public:
  using Recording::routing;
  using RecordSink::routing;

  static std::shared_ptr<MemoryRecording> create();
};

}  // namespace keyscope::recording
