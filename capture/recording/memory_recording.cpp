#include "capture/recording/memory_recording.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/live_layer.hpp"
#include "capture/recording/record_check.hpp"

namespace keyscope::recording {
namespace {

struct LiveRun {
  std::vector<LiveLayer> layers;
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
  info_.layers = plan_->layers;
  if (plan_->by_layers()) info_.layers.resize(1);
  order_.emplace(plan_);
  info_.heads = plan_->heads;
  info_.keys = plan_->keys;
  info_.queries = plan_->queries;
  info_.values = plan_->values;
  info_.attention = plan_->attention;
  runs_.clear();
  for (const RunPlan& run : plan_->runs) {
    info_.runs.emplace_back().plan = run;
    runs_.push_back({std::vector<LiveLayer>(plan_->layers.size(), LiveLayer(*plan_, run)), {}});
  }
  snapshot_.reset();
}

void LiveRecording::block(std::shared_ptr<const BlockRecord> record) {
  const std::lock_guard lock(mutex_);
  order_->accept(*record);
  RunInfo& run = info_.runs[static_cast<std::size_t>(record->run)];
  const auto n_seen = static_cast<std::size_t>(record->start + record->n_new);
  for (const LayerBlock& block : record->layers)
    runs_[static_cast<std::size_t>(record->run)].layers[layer_index(block.layer)].add(*record, block);
  const bool first_of_layers = record->layers.front().layer == plan_->layers.front();
  if (first_of_layers) {
    run.block_start.push_back(record->start);
    run.block_ms.push_back(record->elapsed_ms);
    ++run.blocks_done;
    run.n_tokens = static_cast<std::int64_t>(n_seen);
  }
  if (plan_->by_layers() && record->prompt) show_complete_layers();
  if (record->next_id >= 0) append_token(run.generated, record->next_id, record->next_text);
  snapshot_.reset();
}

std::size_t LiveRecording::layer_index(int layer) const {
  const auto& layers = plan_->layers;
  return static_cast<std::size_t>(std::lower_bound(layers.begin(), layers.end(), layer) - layers.begin());
}

// Under the layer schedule, layers are to be seen when all runs have been through them; the first one while
// it grows.
void LiveRecording::show_complete_layers() {
  const auto complete = [&](std::size_t layer) {
    return std::ranges::all_of(runs_, [&](const LiveRun& run) {
      return static_cast<std::int64_t>(run.layers[layer].traces.front().evicted_at.size()) >=
             plan_->n_prompt();
    });
  };
  while (info_.layers.size() < plan_->layers.size() && complete(info_.layers.size()))
    info_.layers.push_back(plan_->layers[info_.layers.size()]);
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
  info_.runs.at(static_cast<std::size_t>(run)).generated = generated;
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
  const auto found = std::find(info_.layers.begin(), info_.layers.end(), layer);
  if (found == info_.layers.end())
    throw FileError(fmt::format("{}: layer {} was not recorded", info_.source, layer));
  return runs_[static_cast<std::size_t>(run)].layers[static_cast<std::size_t>(found - info_.layers.begin())];
}

// How many rows to give from `first` on.
std::int64_t LiveRecording::check_rows(int run, std::int64_t first, std::int64_t count) const {
  const std::int64_t n_tokens = info_.runs[static_cast<std::size_t>(run)].n_tokens;
  if (first < 0 || first > n_tokens || count > n_tokens - first)
    throw FileError(
        fmt::format("{}: rows [{}, {}) of {} tokens", info_.source, first, first + count, n_tokens));
  return count < 0 ? n_tokens - first : count;
}

RowMatrixF LiveRecording::rows(HeadRows LiveLayer::*tensor, const char* name, int run, int layer, int head,
                               std::int64_t first, std::int64_t count) const {
  const std::lock_guard lock(mutex_);
  const HeadRows& heads = find(run, layer).*tensor;
  const int place = tensor == &LiveLayer::queries ? query_row_place(info_, head) : kv_row_place(info_, head);
  const bool recorded = tensor == &LiveLayer::keys      ? info_.keys
                        : tensor == &LiveLayer::queries ? info_.queries
                                                        : info_.values;
  if (!recorded) throw FileError(fmt::format("{}: {} were not recorded", info_.source, name));
  count = check_rows(run, first, count);
  const int head_dim = info_.model.head_dim;
  return view_rows(heads[static_cast<std::size_t>(place)].data() + first * head_dim, count, head_dim);
}

HeadTrace LiveRecording::trace(int run, int layer, int kv_head) const {
  const std::lock_guard lock(mutex_);
  const LiveLayer& found = find(run, layer);
  check_kv_head(info_, kv_head);
  return found.traces[static_cast<std::size_t>(kv_head)];
}

AttentionStatistics LiveRecording::statistics(int run, int layer) const {
  const std::lock_guard lock(mutex_);
  AttentionStatistics statistics = find(run, layer).statistics;
  statistics.window = statistics.window.leftCols(info_.runs[static_cast<std::size_t>(run)].n_tokens).eval();
  return statistics;
}

RowMatrixF LiveRecording::attention(int run, int layer, int head, std::int64_t first,
                                    std::int64_t count) const {
  const std::lock_guard lock(mutex_);
  const LiveLayer& found = find(run, layer);
  if (!info_.attention) throw FileError(info_.source + ": attention was not recorded");
  const int place = query_row_place(info_, head);
  count = check_rows(run, first, count);
  const RunInfo& about = info_.runs[static_cast<std::size_t>(run)];
  RowMatrixF weights = RowMatrixF::Zero(count, about.n_tokens);
  for (std::int64_t b = 0; b < about.blocks_done; ++b) {
    const std::int64_t start = about.block_start[static_cast<std::size_t>(b)];
    const std::int64_t end = tokens_seen(about, b);
    const auto& block = found.attention_rows[static_cast<std::size_t>(b)];
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
