#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/attention_rules.hpp"
#include "analysis/row_quantisation.hpp"

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

// How keys, queries and values lie in the file. HDF5 has no bfloat16 that other tools read: such rows are
// float32 whose lower 16 bits are zero, which compress to about half.
enum class StoreType { kFloat32, kFloat16, kBFloat16 };

// "float32", "float16", "bfloat16": what `--store` takes.
std::string_view store_name(StoreType store);

// The largest error of a stored number relative to what was computed: half a unit in the last place, 0 for
// float32.
double store_rounding(StoreType store);

// What a capture hands out, as plain data: no tensors, no HDF5. The writer, the live window and the tests all
// receive the same records through `RecordSink`.
// Where a recording came from; the attributes of `/entry/provenance`.
struct Provenance {
  std::string command;        // the command line, quoted so that a shell would read it back
  std::string configuration;  // JSON: every option with its value
  std::string versions;       // keyscope's, LibTorch's, HDF5's
  std::string model_sha256;
  std::string prompt_sha256;  // of the ids as little-endian int32
  std::int64_t seed = 0;
  std::string device;
  std::string schedule = "block";  // or "layer", "together": see RecordSink
  std::string started;             // ISO 8601, UTC
  std::string model_commit = {};   // of a model in the Hugging Face cache; else empty
  std::string quantisation = {};   // how the weights were packed; empty where they were not
};

using analysis::HeadShape;

struct ModelInfo {
  std::string config;  // config.json as read
  std::string name;    // the model folder's name, or ORG/NAME
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;                       // where layers differ, the most of any
  int head_dim = 0;                         // where layers differ, the largest
  std::vector<HeadShape> layer_heads = {};  // per layer, where they differ; empty: all have the same
  // Per layer, the earlier one whose keys and values it attends to, or itself; empty: all have their own.
  std::vector<int> layer_lenders = {};

  HeadShape heads(int layer) const {
    return layer_heads.empty() ? HeadShape{n_kv_heads, head_dim} : layer_heads[layer];
  }
  int group_size(int layer) const { return n_heads / heads(layer).n_kv_heads; }  // query heads per KV head
  int lender(int layer) const { return layer_lenders.empty() ? layer : layer_lenders[layer]; }
};

// Ids and the bytes that each adds to the decoded text: token i is text[offset[i], offset[i+1]).
// Bytes, because a byte-level token need not be valid UTF-8 by itself.
struct TokenText {
  std::vector<std::int32_t> id;
  std::string text;
  std::vector<std::int64_t> offset;  // id.size() + 1 entries, or none: no texts are known

  std::int64_t size() const { return static_cast<std::int64_t>(id.size()); }
  std::string token(std::int64_t i) const {
    return offset.empty() ? "" : text.substr(offset[i], offset[i + 1] - offset[i]);
  }
};

// One policy's run over the prompt, as planned before its first block.
struct RunPlan {
  std::string name;  // the policy's, `keydiff-2` for the second of its kind
  std::string policy;
  std::string parameters;   // JSON object: every option with its value
  std::int64_t budget = 0;  // rows per KV head; 0 for `none`
  std::int64_t block_size = 0;
  std::int64_t n_prompt_blocks = 0;
  std::int64_t max_generated = 0;
  bool replayed = false;  // simulated on the keys of a `none` run: no query attended under this eviction
  // Scored after attention over the whole prompt: a captured run evicts only then, a replayed one ranks rows
  // by what the whole prompt's queries attended to.
  bool oracle = false;
  bool cache_positions = false;  // rows rotated by their place in the cache, not by their true position
  analysis::CacheFormat cache_format = {};  // what the cache held rows as while the model ran
  // (n_layers · n_kv_heads) where layers or heads have budgets of their own, `budget` being the largest;
  // empty: `budget` everywhere. A layer with fewer heads has the first of its entries.
  std::vector<std::int64_t> budgets = {};

  // Per KV head of a layer of this model (a ModelInfo, or the engine's configuration).
  std::vector<std::int64_t> layer_budgets(int layer, const auto& model) const {
    const auto n = static_cast<std::size_t>(model.heads(layer).n_kv_heads);
    if (budgets.empty()) return std::vector<std::int64_t>(n, budget);
    const auto first = budgets.begin() + std::ptrdiff_t{model.n_kv_heads} * layer;
    return {first, first + static_cast<std::ptrdiff_t>(n)};
  }

  // Tokens that pass through the model if generation goes to its limit: the last id is never fed back.
  std::int64_t max_tokens(std::int64_t n_prompt) const {
    return n_prompt + (max_generated > 1 ? max_generated - 1 : 0);
  }
  std::int64_t max_blocks() const { return n_prompt_blocks + (max_generated > 1 ? max_generated - 1 : 0); }
};

// Everything a sink must know before the first block, so that it can lay out all it will ever hold.
struct RecordPlan {
  Provenance provenance;
  ModelInfo model;
  TokenText prompt;
  std::vector<RunPlan> runs;
  std::vector<int> layers;   // recorded layers, ascending
  RecordedHeads heads = {};  // whose keys, queries, values and attention weights are recorded
  bool keys = true;
  bool queries = true;
  bool values = false;
  bool value_norms = false;  // of all heads, in layers that have keys of their own
  bool attention = false;
  bool logits = false;
  std::int64_t score_last = 32;  // M: how many of the last prompt positions keep their logits
  std::int64_t vocab_size = 0;
  StoreType store = StoreType::kFloat32;
  bool compress = false;
  bool sinks = false;  // the model's heads have learned sinks
  // Of recorded layers, ascending: those with experts, of which each token goes to `experts_per_token`; and
  // those that have no keys (recurrent mixers), of which nothing else is recorded.
  std::vector<int> expert_layers = {};
  std::vector<int> keyless_layers = {};
  int n_experts = 0, experts_per_token = 0;

  std::int64_t n_prompt() const { return prompt.size(); }
  // R_kv and R: heads with rows, the first axis of datasets of rows.
  int n_row_kv_heads(int layer) const { return heads.count(model.heads(layer).n_kv_heads); }
  int n_row_heads(int layer) const { return n_row_kv_heads(layer) * model.group_size(layer); }
  // The recorded layer that holds this one's keys and values: the first of those that share them.
  int holder(int layer) const;
  bool has_value_norms(int layer) const { return value_norms && model.lender(layer) == layer; }
  bool by_layers() const { return provenance.schedule == "layer"; }
  bool together() const { return provenance.schedule == "together"; }
  bool has_keys(int layer) const { return !std::ranges::binary_search(keyless_layers, layer); }
  bool has_experts(int layer) const { return std::ranges::binary_search(expert_layers, layer); }
  // The first recorded layer that has keys, whose blocks are those that a run counts; -1: there is none.
  int counted_layer() const;
};

// How many of a prompt's last queries `attention_window` sums the weights of.
inline constexpr std::int64_t kRecordedWindow = 32;

// Rows that one KV head lost at the end of a block.
struct HeadEvictions {
  std::vector<std::int32_t> position;  // true positions, ascending
  std::vector<float> margin;  // lowest retained score that was not forced, minus the row's; may be NaN

  void add(const HeadEvictions& more) {
    position.insert(position.end(), more.position.begin(), more.position.end());
    margin.insert(margin.end(), more.margin.begin(), more.margin.end());
  }
};

// Attention that the rows of one KV head received from one block's queries (prompt blocks only).
struct HeadAttention {
  std::vector<std::int32_t> position;  // (n_rows) the rows that were there, ascending
  std::vector<double> received;        // (n_rows) sum over the block's queries, mean over the group
  std::vector<std::int32_t> queries;   // (n_rows) how many of the block's queries could see the row
  std::vector<float> last;  // (n_rows) from the last prompt query; empty before the last prompt block
};

// Keys of one KV head that earlier blocks brought, and that were quantised with this one: their group has
// filled.
struct SettledKeys {
  std::vector<std::int32_t> position;  // true positions, ascending
  std::vector<float> keys;             // (n_rows, head_dim), as they lie in the cache from now on
};

// What one block did in one recorded layer. R_kv and R: the KV and query heads whose rows are recorded.
struct LayerBlock {
  int layer = 0;
  std::vector<float> keys;     // (R_kv, n_new, head_dim), after RoPE; empty if not recorded
  std::vector<float> queries;  // (R, n_new, head_dim), after RoPE; empty if not recorded
  std::vector<float> values;   // (R_kv, n_new, head_dim); empty if not recorded
  // (n_kv_heads, n_new) ‖W_O v‖₁, mean over the group: what `critical` weighs; empty if not recorded.
  std::vector<float> value_norms;
  // Per recorded KV head, in place of what earlier blocks said; empty where there are none in any.
  std::vector<SettledKeys> settled_keys;
  std::vector<HeadEvictions> evictions;  // per KV head
  std::vector<HeadAttention> attention;  // per KV head; empty after the prompt
  // (R, n_new, start + n_new): weights by true key position, 0 where not visible; empty if not recorded.
  std::vector<float> attention_rows;
  std::vector<float> entropy;  // (n_heads, n_new) of each query's weights, in nats; empty after the prompt
  // (n_heads) what this block's queries gave to the heads' learned sinks, summed: with what rows received, it
  // adds up to the number of queries. Empty after the prompt, and in models without sinks.
  std::vector<double> attention_sink;
  std::vector<float> sink_logits;  // (n_heads) the sinks' scores, with a prompt's first block
  // With a prompt's last block, statistics of attention over the whole prompt:
  std::vector<float> attention_window;  // (n_kv_heads, n_prompt) weights of the last queries, summed
  std::vector<double> gini, top_share;  // (n_heads) of the attention that positions received
  // (n_kv_heads) bytes of the keys and values that are in the cache then: as they are held, and as a packed
  // cache would. Empty where the cache does not quantise.
  std::vector<std::int64_t> held_bytes, packed_bytes;
};

// One block of one run: through all layers, or, in a prompt under the layer schedule, through one.
struct BlockRecord {
  int run = 0;             // index into RecordPlan::runs
  int block = 0;           // counted from 0 over prompt and generation
  std::int32_t start = 0;  // true position of the block's first token
  std::int32_t n_new = 0;
  bool prompt = true;              // false: a generated token fed back
  float elapsed_ms = 0;            // NaN where the schedule has none
  std::vector<LayerBlock> layers;  // recorded ones, ascending
  // The id generated from this block's last row, with its text: what a killed capture has generated so far is
  // then in its recording. -1 where no id was generated, or where only `run_done` will say it.
  std::int32_t next_id = -1;
  std::string next_text;
};

// To which experts a layer's router sent tokens first, first + 1, …, k each, the likeliest first.
struct RoutingRecord {
  int run = 0;  // index into RecordPlan::runs
  int layer = 0;
  std::int64_t first = 0;             // true position
  std::vector<std::int32_t> experts;  // (n, k)
  std::vector<float> weights;         // (n, k) what their outputs were multiplied by
  std::vector<float> entropy;         // (n) of the router's shares of all experts, in nats
};

// What is known once a run's prompt has been read.
struct PromptResult {
  int run = 0;
  std::vector<float> top_logits;  // 10 largest at the last prompt position, descending
  std::vector<std::int32_t> top_ids;
  std::vector<float> logits;  // (n_scored, vocab_size) last prompt positions; empty if not recorded
  // The id generated from the prompt's last position, where no block has reported it; -1: none.
  std::int32_t next_id = -1;
  std::string next_text;
};

// Receives a capture as it happens, always in this order: begin; per run its blocks, prompt_done after the
// last prompt block, run_done; end. Under the layer schedule all runs' prompt blocks come first: per recorded
// layer, per run, block by block. Of runs that go together each one's calls come in that order, between those
// of the others. Calls come from the inference thread; a sink that blocks slows it down.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void begin(std::shared_ptr<const RecordPlan> plan) = 0;
  virtual void block(std::shared_ptr<const BlockRecord> record) = 0;
  // Of recorded layers with experts: before the record of the tokens' block, or under the layer schedule
  // after those of the blocks that went through the layer with them.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who overrides it keeps the record
  virtual void routing(std::shared_ptr<const RoutingRecord> /*record*/) {}
  virtual void prompt_done(const PromptResult& result) = 0;
  virtual void run_done(int run, const TokenText& generated) = 0;
  // `complete` is false when the capture was cancelled or failed; what came before is kept.
  virtual void end(bool complete) = 0;
};

// A policy's options as a run's `parameters`: a JSON object in which what reads as a number is one.
std::string parameters_json(const std::map<std::string, std::string>& options);

// Back again: the options that a run's policy is made of. What a replay adds for an oracle is none of them.
std::map<std::string, std::string> policy_options(const RunPlan& run);

// What a run of `policy` is called beside runs that are there: `keydiff`, the second one `keydiff-2`.
std::string next_run_name(const std::string& policy, std::span<const RunPlan> runs);

}  // namespace keyscope::recording
