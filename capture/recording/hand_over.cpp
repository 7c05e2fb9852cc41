#include "capture/recording/hand_over.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::recording {

namespace {

RecordPlan plan_of(const Recording& recording, const RecordingInfo& info) {
  RecordPlan plan;
  plan.provenance = info.provenance;
  plan.model = info.model;
  plan.prompt = info.prompt;
  plan.layers = info.all_layers();
  plan.keyless_layers = info.keyless_layers;
  plan.expert_layers = info.expert_layers;
  plan.n_experts = info.n_experts;
  plan.experts_per_token = info.experts_per_token;
  plan.sinks = info.sinks;
  plan.heads = info.heads;
  plan.keys = info.keys;
  plan.queries = info.queries;
  plan.values = info.values;
  plan.value_norms = info.value_norms;
  plan.attention = info.attention;
  for (const RunInfo& run : info.runs) plan.runs.push_back(run.plan);
  plan.score_last = 1;
  for (std::size_t run = 0; run < info.runs.size(); ++run) {
    if (info.runs[run].n_scored == 0) continue;
    plan.logits = true;
    plan.score_last = std::max(plan.score_last, info.runs[run].n_scored);
    plan.vocab_size = recording.logits(static_cast<int>(run)).cols();
  }
  return plan;
}

void append(std::vector<float>& to, const RowMatrixF& rows) {
  to.insert(to.end(), rows.data(), rows.data() + rows.size());
}

// One layer of one run, of which blocks are asked one after another.
class LayerSource {
 public:
  LayerSource(const Recording& recording, const RecordingInfo& info, int run, int layer)
      : recording_(recording),
        info_(info),
        run_(run),
        layer_(layer),
        routing_(recording.routing(run, layer)) {
    if (!info.has_keys(layer)) return;
    statistics_ = recording.statistics(run, layer);
    sink_logits_ = recording.sink_logits(run, layer);
    for (int head = 0; head < info.model.heads(layer).n_kv_heads; ++head)
      traces_.push_back(recording.trace(run, layer, head));
  }

  //   last: no block of the prompt is handed over after this one
  LayerBlock block(const BlockRecord& about, bool last) const {
    LayerBlock block;
    block.layer = layer_;
    if (!info_.has_keys(layer_)) return block;
    add_rows(about, block);
    if (info_.has_value_norms(layer_))
      for (const HeadTrace& trace : traces_) {
        const auto first = trace.value_norms.begin() + about.start;
        block.value_norms.insert(block.value_norms.end(), first, first + about.n_new);
      }
    for (const HeadTrace& trace : traces_) block.evictions.push_back(evictions_of(trace, about));
    if (!about.prompt) return block;
    for (const HeadTrace& trace : traces_) block.attention.push_back(sums_of(trace, about, last));
    if (statistics_.sink.size() > 0) {
      const Eigen::VectorXd sums = statistics_.sink.col(about.block);
      block.attention_sink.assign(sums.begin(), sums.end());
    }
    if (about.block == 0) block.sink_logits = sink_logits_;
    if (statistics_.entropy.size() > 0)
      append(block.entropy, statistics_.entropy.middleCols(about.start, about.n_new));
    if (about.start + about.n_new < info_.n_prompt()) return block;
    if (statistics_.window.size() > 0)
      append(block.attention_window, statistics_.window.leftCols(info_.n_prompt()));
    block.gini = statistics_.gini;
    block.top_share = statistics_.top_share;
    block.held_bytes = statistics_.held_bytes;
    block.packed_bytes = statistics_.packed_bytes;
    return block;
  }

  // Of a block's tokens; null where the layer has no experts, or a token's are not known.
  std::shared_ptr<RoutingRecord> routing(const BlockRecord& about) const {
    const auto experts = routing_.experts.middleRows(routing_.experts.rows() > 0 ? about.start : 0,
                                                     routing_.experts.rows() > 0 ? about.n_new : 0);
    if (experts.size() == 0 || experts.minCoeff() < 0) return nullptr;
    auto record = std::make_shared<RoutingRecord>();
    record->run = run_;
    record->layer = layer_;
    record->first = about.start;
    record->experts.assign(experts.reshaped<Eigen::RowMajor>().begin(),
                           experts.reshaped<Eigen::RowMajor>().end());
    append(record->weights, routing_.weights.middleRows(about.start, about.n_new));
    const auto first = routing_.entropy.begin() + about.start;
    record->entropy.assign(first, first + about.n_new);
    return record;
  }

 private:
  void add_rows(const BlockRecord& about, LayerBlock& block) const {
    const int group = info_.model.group_size(layer_);
    for (const int head : info_.kv_heads(layer_)) {
      if (info_.keys) append(block.keys, recording_.keys(run_, layer_, head, about.start, about.n_new));
      if (info_.values) append(block.values, recording_.values(run_, layer_, head, about.start, about.n_new));
      for (int query = head * group; query < (head + 1) * group; ++query) {
        if (info_.queries)
          append(block.queries, recording_.queries(run_, layer_, query, about.start, about.n_new));
        if (info_.attention)
          append(block.attention_rows, recording_.attention(run_, layer_, query, about.start, about.n_new)
                                           .leftCols(about.start + about.n_new));
      }
    }
  }

  static HeadEvictions evictions_of(const HeadTrace& trace, const BlockRecord& about) {
    HeadEvictions evictions;
    for (std::size_t token = 0; token < trace.evicted_at.size(); ++token) {
      if (trace.evicted_at[token] != about.block) continue;
      evictions.position.push_back(static_cast<std::int32_t>(token));
      evictions.margin.push_back(trace.evicted_margin[token]);
    }
    return evictions;
  }

  // All that a row received is handed over with the last block of the prompt that still has it.
  HeadAttention sums_of(const HeadTrace& trace, const BlockRecord& about, bool last) const {
    HeadAttention sums;
    for (std::int32_t token = 0; token < about.start + about.n_new; ++token) {
      const std::int32_t evicted_at = trace.evicted_at[token];
      const bool kept = evicted_at < 0 || evicted_at > about.block;
      if (evicted_at != about.block && !(last && kept)) continue;
      sums.position.push_back(token);
      sums.received.push_back(trace.attention_received[token]);
      sums.queries.push_back(trace.attention_queries[token]);
      if (last) sums.last.push_back(trace.attention_last[token]);
    }
    return sums;
  }

  const Recording& recording_;
  const RecordingInfo& info_;
  int run_, layer_;
  LayerRouting routing_;
  AttentionStatistics statistics_;
  std::vector<float> sink_logits_;
  std::vector<HeadTrace> traces_;
};

class HandOver {
 public:
  HandOver(const Recording& recording, RecordSink& sink, const OpenProgress& progress)
      : recording_(recording), info_(recording.info()), sink_(sink), progress_(progress) {}

  void run() {
    if (!info_->complete && by_layers())
      throw InvalidInput("the recording has not ended, or was cut short, and went layer by layer");
    for (const RunInfo& each : info_->runs) {
      const std::int64_t n_passes = by_layers() ? std::ssize(info_->all_layers()) : 1;
      n_blocks_ += each.blocks_done + (n_passes - 1) * each.plan.n_prompt_blocks;
    }
    sink_.begin(std::make_shared<const RecordPlan>(plan_of(recording_, *info_)));
    const int n_runs = static_cast<int>(info_->runs.size());
    if (by_layers()) {
      for (const int layer : info_->all_layers())
        for (int run = 0; run < n_runs; ++run) hand_blocks(run, {layer}, true);
      for (int run = 0; run < n_runs; ++run) end_prompt(run);
    } else {
      for (int run = 0; run < n_runs; ++run) {
        hand_blocks(run, info_->all_layers(), true);
        end_prompt(run);
      }
    }
    sink_.end(info_->complete);
  }

 private:
  bool by_layers() const { return info_->provenance.schedule == "layer"; }

  void hand_blocks(int run, const std::vector<int>& layers, bool prompt) {
    const RunInfo& about = info_->runs[run];
    std::vector<LayerSource> sources;
    sources.reserve(layers.size());
    for (const int layer : layers) sources.emplace_back(recording_, *info_, run, layer);
    const std::int64_t n_prompt_blocks = std::min(about.plan.n_prompt_blocks, about.blocks_done);
    const std::int64_t first = prompt ? 0 : n_prompt_blocks;
    const std::int64_t end = prompt ? n_prompt_blocks : about.blocks_done;
    for (std::int64_t block = first; block < end; ++block) {
      const auto record = std::make_shared<BlockRecord>();
      record->run = run;
      record->block = static_cast<int>(block);
      record->start = about.block_start[block];
      record->n_new = static_cast<std::int32_t>(tokens_seen(about, block) - record->start);
      record->prompt = prompt;
      record->elapsed_ms = about.block_ms[block];
      if (!prompt) tell_next(about, block - about.plan.n_prompt_blocks + 1, *record);
      for (const LayerSource& source : sources) {
        record->layers.push_back(source.block(*record, prompt && block + 1 == end));
        if (const auto routing = source.routing(*record)) sink_.routing(routing);
      }
      sink_.block(record);
      if (progress_) progress_(++n_handed_, n_blocks_);
    }
  }

  // The token that was generated from a block, or from the prompt, where a run may end before all are told.
  template <typename Record>
  void tell_next(const RunInfo& about, std::int64_t generated, Record& record) const {
    if (info_->complete || generated >= about.generated.size()) return;
    record.next_id = about.generated.id[generated];
    record.next_text = about.generated.token(generated);
  }

  // What follows a run's prompt, if it came to its end.
  void end_prompt(int run) {
    const RunInfo& about = info_->runs[run];
    if (!info_->complete && about.top_ids.empty()) return;
    PromptResult result;
    tell_next(about, 0, result);
    result.run = run;
    result.top_logits = about.top_logits;
    result.top_ids = about.top_ids;
    if (about.n_scored > 0) append(result.logits, recording_.logits(run));
    sink_.prompt_done(result);
    hand_blocks(run, info_->all_layers(), false);
    if (info_->complete) sink_.run_done(run, about.generated);
  }

  const Recording& recording_;
  std::shared_ptr<const RecordingInfo> info_;
  RecordSink& sink_;
  const OpenProgress& progress_;
  std::int64_t n_handed_ = 0, n_blocks_ = 0;
};

}  // namespace

void hand_over(const Recording& recording, RecordSink& sink, const OpenProgress& progress) {
  HandOver(recording, sink, progress).run();
}

}  // namespace keyscope::recording
