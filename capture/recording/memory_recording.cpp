#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/record_check.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

namespace {

// Per recorded head, rows one after another; grown block by block.
using HeadRows = std::vector<std::vector<float>>;

// What a capture has delivered of one layer of one run so far.
struct LiveLayer {
  HeadRows keys, queries, values;
  std::vector<HeadTrace> traces;                   // per KV head, as long as the tokens seen
  std::vector<std::vector<float>> attention_rows;  // per block: (R, n_new, start + n_new)
  AttentionStatistics statistics;                  // entropy of the whole prompt, NaN so far
  std::vector<float> sink_logits;
  std::int64_t n_tokens = 0;  // seen

  LiveLayer(const RecordPlan& plan, const RunPlan& run, int layer);

  // What the next block, checked before, says about this layer.
  //   throws InvalidInput where it evicts a row twice
  void add(const BlockRecord& record, const LayerBlock& block);
};

void append_rows(HeadRows& heads, const std::vector<float>& block, std::size_t n_values) {
  if (block.empty()) return;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto first = block.begin() + static_cast<std::ptrdiff_t>(h * n_values);
    heads[h].insert(heads[h].end(), first, first + static_cast<std::ptrdiff_t>(n_values));
  }
}

void replace_rows(std::vector<float>& rows, const SettledKeys& settled) {
  if (settled.position.empty()) return;
  const std::size_t width = settled.keys.size() / settled.position.size();
  for (std::size_t i = 0; i < settled.position.size(); ++i)
    std::copy_n(settled.keys.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                rows.begin() + static_cast<std::ptrdiff_t>(settled.position[i] * width));
}

void grow(HeadTrace& trace, std::size_t n_seen) {
  trace.evicted_at.resize(n_seen, -1);
  trace.evicted_margin.resize(n_seen, std::numeric_limits<float>::quiet_NaN());
  trace.attention_received.resize(n_seen, 0);
  trace.attention_queries.resize(n_seen, 0);
  trace.attention_last.resize(n_seen, 0);
}

void add_attention(HeadTrace& trace, const HeadAttention& head) {
  for (std::size_t i = 0; i < head.position.size(); ++i) {
    const std::int32_t at = head.position[i];
    trace.attention_received[at] += head.received[i];
    trace.attention_queries[at] += head.queries[i];
    if (!head.last.empty()) trace.attention_last[at] = head.last[i];
  }
}

void add_evictions(HeadTrace& trace, const HeadEvictions& head, std::int32_t block) {
  for (std::size_t i = 0; i < head.position.size(); ++i) {
    const std::int32_t at = head.position[i];
    if (trace.evicted_at[at] >= 0)
      throw InvalidInput(fmt::format("recording: position {} was evicted twice", head.position[i]));
    trace.evicted_at[at] = block;
    trace.evicted_margin[at] = head.margin[i];
  }
}

void add_statistics(AttentionStatistics& statistics, const LayerBlock& from, int block, std::int64_t start,
                    std::int64_t n_new) {
  if (!from.attention_sink.empty())
    statistics.sink.col(block) =
        Eigen::VectorXd::Map(from.attention_sink.data(), std::ssize(from.attention_sink));
  if (!from.entropy.empty())
    statistics.entropy.middleCols(start, n_new) =
        view_rows(from.entropy.data(), statistics.entropy.rows(), n_new);
  if (!from.held_bytes.empty()) statistics.held_bytes = from.held_bytes;
  if (!from.packed_bytes.empty()) statistics.packed_bytes = from.packed_bytes;
  if (!from.gini.empty()) statistics.gini = from.gini;
  if (!from.top_share.empty()) statistics.top_share = from.top_share;
  if (from.attention_window.empty()) return;
  const Eigen::Index n_kv_heads = statistics.window.rows();
  const auto n_prompt = static_cast<Eigen::Index>(from.attention_window.size()) / n_kv_heads;
  statistics.window.leftCols(n_prompt) = view_rows(from.attention_window.data(), n_kv_heads, n_prompt);
}

LiveLayer::LiveLayer(const RecordPlan& plan, const RunPlan& run, int layer)
    : keys(plan.n_row_kv_heads(layer)),
      queries(plan.n_row_heads(layer)),
      values(keys.size()),
      traces(plan.model.heads(layer).n_kv_heads) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  statistics.entropy =
      RowMatrixF::Constant(plan.model.n_heads, plan.n_prompt(), std::numeric_limits<float>::quiet_NaN());
  statistics.window = RowMatrixF::Zero(std::ssize(traces), run.max_tokens(plan.n_prompt()));
  statistics.gini.assign(plan.model.n_heads, unknown);
  statistics.top_share.assign(statistics.gini.size(), unknown);
  if (plan.sinks) statistics.sink = RowMatrixD::Constant(plan.model.n_heads, run.n_prompt_blocks, unknown);
}

void LiveLayer::add(const BlockRecord& record, const LayerBlock& block) {
  n_tokens = std::int64_t{record.start} + record.n_new;
  append_rows(keys, block.keys, block.keys.size() / keys.size());
  for (std::size_t h = 0; h < block.settled_keys.size(); ++h) replace_rows(keys[h], block.settled_keys[h]);
  append_rows(queries, block.queries, block.queries.size() / queries.size());
  append_rows(values, block.values, block.values.size() / values.size());
  for (std::size_t h = 0; h < traces.size() && !block.value_norms.empty(); ++h) {
    const auto first = block.value_norms.begin() + static_cast<std::ptrdiff_t>(h * record.n_new);
    traces[h].value_norms.insert(traces[h].value_norms.end(), first, first + record.n_new);
  }
  if (!block.attention_rows.empty()) attention_rows.push_back(block.attention_rows);
  for (HeadTrace& trace : traces) grow(trace, n_tokens);
  if (record.prompt)
    for (std::size_t h = 0; h < block.attention.size(); ++h) add_attention(traces[h], block.attention[h]);
  add_statistics(statistics, block, record.block, record.start, record.n_new);
  if (!block.sink_logits.empty()) sink_logits = block.sink_logits;
  for (std::size_t h = 0; h < block.evictions.size(); ++h)
    add_evictions(traces[h], block.evictions[h], record.block);
}

// A layer's routing of the tokens so far, as a RoutingRecord has it; -1 and NaN where it has not come yet.
struct LiveRouting {
  std::vector<std::int32_t> experts;
  std::vector<float> weights, entropy;

  void add(const RoutingRecord& record) {
    const auto put = [](auto& to, const auto& from, std::size_t first, auto unknown) {
      to.resize(std::max(to.size(), first + from.size()), unknown);
      std::ranges::copy(from, to.begin() + static_cast<std::ptrdiff_t>(first));
    };
    const auto first = static_cast<std::size_t>(record.first);
    const std::size_t k = record.experts.size() / record.entropy.size();
    put(experts, record.experts, first * k, -1);
    put(weights, record.weights, first * k, std::numeric_limits<float>::quiet_NaN());
    put(entropy, record.entropy, first, std::numeric_limits<float>::quiet_NaN());
  }
};

struct LiveRun {
  std::vector<LiveLayer> layers;  // as they were planned, with those that have no keys
  std::map<int, LiveRouting> routing;
  std::vector<float> logits;
};

void append_token(TokenText& text, std::int32_t id, const std::string& piece) {
  if (text.offset.empty()) text.offset.push_back(0);
  text.id.push_back(id);
  text.text += piece;
  text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
}

class LiveRecording final : public MemoryRecording {
 public:
  void begin(std::shared_ptr<const RecordPlan> plan) override;
  void block(std::shared_ptr<const BlockRecord> record) override;
  void routing(std::shared_ptr<const RoutingRecord> record) override;
  void prompt_done(const PromptResult& result) override;
  void run_done(int run, const TokenText& generated) override;
  void end(bool complete) override;

  std::shared_ptr<const RecordingInfo> info() const override;
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override {
    return rows(&LiveLayer::keys, "keys", run, layer, kv_head, first, count);
  }
  RowMatrixF queries(int run, int layer, int head, std::int64_t first, std::int64_t count) const override {
    return rows(&LiveLayer::queries, "queries", run, layer, head, first, count);
  }
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override {
    return rows(&LiveLayer::values, "values", run, layer, kv_head, first, count);
  }
  HeadTrace trace(int run, int layer, int kv_head) const override;
  AttentionStatistics statistics(int run, int layer) const override;
  std::vector<float> sink_logits(int run, int layer) const override;
  LayerRouting routing(int run, int layer) const override;
  RowMatrixF attention(int run, int layer, int head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF logits(int run) const override;

 private:
  const LiveLayer& find(int run, int layer) const;
  RowMatrixF rows(HeadRows LiveLayer::*tensor, const char* name, int run, int layer, int head,
                  std::int64_t first, std::int64_t count) const;
  std::int64_t check_rows(int run, std::int64_t first, std::int64_t count) const;
  std::size_t layer_index(int layer) const;
  void show_complete_layers();

  mutable std::mutex mutex_;
  std::shared_ptr<const RecordPlan> plan_;
  std::optional<BlockOrder> order_;
  RecordingInfo info_;
  std::vector<LiveRun> runs_;
  mutable std::shared_ptr<const RecordingInfo> snapshot_;  // null: stale
};

void LiveRecording::begin(std::shared_ptr<const RecordPlan> plan) {
  check_plan(*plan);
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  info_ = {};
  info_.source = "live";
  info_.provenance = plan_->provenance;
  info_.model = plan_->model;
  info_.prompt = plan_->prompt;
  for (const int layer : plan_->layers)
    (plan_->has_keys(layer) ? info_.layers : info_.keyless_layers).push_back(layer);
  if (plan_->by_layers()) {
    info_.layers.resize(1);
    info_.keyless_layers.clear();
  }
  info_.expert_layers = plan_->expert_layers;
  info_.n_experts = plan_->n_experts;
  info_.experts_per_token = plan_->experts_per_token;
  info_.sinks = plan_->sinks;
  order_.emplace(plan_);
  info_.heads = plan_->heads;
  info_.keys = plan_->keys;
  info_.queries = plan_->queries;
  info_.values = plan_->values;
  info_.value_norms = plan_->value_norms;
  info_.attention = plan_->attention;
  info_.window_sums = true;
  runs_.clear();
  for (const RunPlan& run : plan_->runs) {
    info_.runs.emplace_back().plan = run;
    std::vector<LiveLayer> layers;
    for (const int layer : plan_->layers) layers.emplace_back(*plan_, run, layer);
    runs_.push_back({std::move(layers), {}, {}});
  }
  snapshot_.reset();
}

void LiveRecording::block(std::shared_ptr<const BlockRecord> record) {
  const std::lock_guard lock(mutex_);
  order_->accept(*record);
  RunInfo& run = info_.runs[record->run];
  const std::int64_t n_seen = record->start + record->n_new;
  for (const LayerBlock& block : record->layers)
    runs_[record->run].layers[layer_index(block.layer)].add(*record, block);
  const bool counts =
      std::ranges::find(record->layers, plan_->counted_layer(), &LayerBlock::layer) != record->layers.end();
  if (counts) {
    run.block_start.push_back(record->start);
    run.block_ms.push_back(record->elapsed_ms);
    ++run.blocks_done;
    run.n_tokens = n_seen;
  }
  if (plan_->by_layers() && record->prompt) show_complete_layers();
  if (record->next_id >= 0) append_token(run.generated, record->next_id, record->next_text);
  snapshot_.reset();
}

std::size_t LiveRecording::layer_index(int layer) const {
  const auto& layers = plan_->layers;
  return std::lower_bound(layers.begin(), layers.end(), layer) - layers.begin();
}

// Under the layer schedule, layers are to be seen when all runs have been through them; the first one that
// has keys while it grows.
void LiveRecording::show_complete_layers() {
  info_.layers.clear();
  info_.keyless_layers.clear();
  for (const int layer : plan_->layers) {
    const bool complete = std::ranges::all_of(runs_, [&](const LiveRun& run) {
      return run.layers[layer_index(layer)].n_tokens >= plan_->n_prompt();
    });
    if (!plan_->has_keys(layer)) {
      if (complete) info_.keyless_layers.push_back(layer);
    } else if (complete || layer == plan_->counted_layer()) {
      info_.layers.push_back(layer);
    }
  }
}

void LiveRecording::routing(std::shared_ptr<const RoutingRecord> record) {
  const std::lock_guard lock(mutex_);
  check_routing(*plan_, *record);
  runs_[record->run].routing[record->layer].add(*record);
}

void LiveRecording::prompt_done(const PromptResult& result) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(result.run);
  RunInfo& run = info_.runs.at(at);
  run.top_logits = result.top_logits;
  run.top_ids = result.top_ids;
  if (result.next_id >= 0) append_token(run.generated, result.next_id, result.next_text);
  if (plan_->logits) {
    runs_.at(at).logits = result.logits;
    run.n_scored = static_cast<std::int64_t>(result.logits.size()) / plan_->vocab_size;
  }
  snapshot_.reset();
}

void LiveRecording::run_done(int run, const TokenText& generated) {
  check_text(generated, "recording: generated text");
  const std::lock_guard lock(mutex_);
  info_.runs.at(run).generated = generated;
  snapshot_.reset();
}

void LiveRecording::end(bool complete) {
  const std::lock_guard lock(mutex_);
  info_.complete = complete;
  snapshot_.reset();
}

std::shared_ptr<const RecordingInfo> LiveRecording::info() const {
  const std::lock_guard lock(mutex_);
  if (!snapshot_) snapshot_ = std::make_shared<const RecordingInfo>(info_);
  return snapshot_;
}

const LiveLayer& LiveRecording::find(int run, int layer) const {
  if (run < 0 || static_cast<std::size_t>(run) >= runs_.size())
    throw FileError(fmt::format("{}: there is no run {}; it has {}", info_.source, run, runs_.size()));
  require_keys_of(info_, layer);
  return runs_[run].layers[layer_index(layer)];
}

// How many rows to give from `first` on.
std::int64_t LiveRecording::check_rows(int run, std::int64_t first, std::int64_t count) const {
  const std::int64_t n_tokens = info_.runs[run].n_tokens;
  if (first < 0 || first > n_tokens || count > n_tokens - first)
    throw FileError(
        fmt::format("{}: rows [{}, {}) of {} tokens", info_.source, first, first + count, n_tokens));
  return count < 0 ? n_tokens - first : count;
}

RowMatrixF LiveRecording::rows(HeadRows LiveLayer::*tensor, const char* name, int run, int layer, int head,
                               std::int64_t first, std::int64_t count) const {
  const std::lock_guard lock(mutex_);
  const HeadRows& heads = find(run, layer).*tensor;
  const int place =
      tensor == &LiveLayer::queries ? query_row_place(info_, layer, head) : kv_row_place(info_, layer, head);
  const bool recorded = tensor == &LiveLayer::keys      ? info_.keys
                        : tensor == &LiveLayer::queries ? info_.queries
                                                        : info_.values;
  if (!recorded) throw FileError(fmt::format("{}: {} were not recorded", info_.source, name));
  count = check_rows(run, first, count);
  const int head_dim = info_.model.heads(layer).head_dim;
  return view_rows(heads[place].data() + first * head_dim, count, head_dim);
}

HeadTrace LiveRecording::trace(int run, int layer, int kv_head) const {
  const std::lock_guard lock(mutex_);
  const LiveLayer& found = find(run, layer);
  check_kv_head(info_, layer, kv_head);
  return found.traces[kv_head];
}

AttentionStatistics LiveRecording::statistics(int run, int layer) const {
  const std::lock_guard lock(mutex_);
  AttentionStatistics statistics = find(run, layer).statistics;
  statistics.window = statistics.window.leftCols(info_.runs[run].n_tokens).eval();
  return statistics;
}

std::vector<float> LiveRecording::sink_logits(int run, int layer) const {
  const std::lock_guard lock(mutex_);
  return find(run, layer).sink_logits;
}

LayerRouting LiveRecording::routing(int run, int layer) const {
  const std::lock_guard lock(mutex_);
  const auto& layers = runs_.at(run).routing;
  const auto found = layers.find(layer);
  if (found == layers.end()) return {};
  LiveRouting known = found->second;
  const auto n = static_cast<std::size_t>(info_.runs[run].n_tokens), k = size_t(info_.experts_per_token);
  known.experts.resize(n * k, -1);
  known.weights.resize(n * k, std::numeric_limits<float>::quiet_NaN());
  known.entropy.resize(n, std::numeric_limits<float>::quiet_NaN());
  LayerRouting routing;
  using Experts = decltype(routing.experts);
  routing.experts = Experts::Map(known.experts.data(), std::ssize(known.entropy), info_.experts_per_token);
  routing.weights = RowMatrixF::Map(known.weights.data(), routing.experts.rows(), routing.experts.cols());
  routing.entropy = std::move(known.entropy);
  return routing;
}

RowMatrixF LiveRecording::attention(int run, int layer, int head, std::int64_t first,
                                    std::int64_t count) const {
  const std::lock_guard lock(mutex_);
  const LiveLayer& found = find(run, layer);
  if (!info_.attention) throw FileError(info_.source + ": attention was not recorded");
  const int place = query_row_place(info_, layer, head);
  count = check_rows(run, first, count);
  const RunInfo& about = info_.runs[run];
  RowMatrixF weights = RowMatrixF::Zero(count, about.n_tokens);
  for (std::int64_t b = 0; b < about.blocks_done; ++b) {
    const std::int64_t start = about.block_start[b];
    const std::int64_t end = tokens_seen(about, b);
    const auto& block = found.attention_rows[b];
    const std::int64_t from = std::max(first, start), to = std::min(first + count, end);
    if (from >= to) continue;
    const float* row = block.data() + (place * (end - start) + from - start) * end;
    weights.block(from - first, 0, to - from, end) = view_rows(row, to - from, end);
  }
  return weights;
}

RowMatrixF LiveRecording::logits(int run) const {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(run);
  if (run < 0 || at >= runs_.size())
    throw FileError(fmt::format("{}: there is no run {}; it has {}", info_.source, run, runs_.size()));
  if (info_.runs[at].n_scored == 0) return {};
  return view_rows(runs_[at].logits.data(), info_.runs[at].n_scored, plan_->vocab_size);
}

}  // namespace

std::shared_ptr<MemoryRecording> MemoryRecording::create() { return std::make_shared<LiveRecording>(); }

}  // namespace keyscope::recording
