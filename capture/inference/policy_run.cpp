#include "capture/inference/policy_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/inference/run_state.hpp"
#include "capture/model/policy_file.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

constexpr std::size_t kTopLogits = 10;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point started) {
  return std::chrono::duration<double>(Clock::now() - started).count();
}

// Ids of the largest logits, descending; equal logits in order of id.
std::vector<std::int32_t> top_ids(const std::vector<float>& logits, std::size_t n) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  n = std::min(n, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n), ids.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = logits[a], y = logits[b];
                      return x != y ? x > y : a < b;
                    });
  ids.resize(n);
  return ids;
}

Routing rows_of(const Routing& routing, std::int64_t first, std::int64_t n) {
  if (!routing.experts.defined()) return {};
  return {routing.experts.narrow(0, first, n), routing.weights.narrow(0, first, n),
          routing.entropy.narrow(0, first, n)};
}

}  // namespace

PolicyRun::PolicyRun(const CaptureContext& context, int run)
    : context_(context),
      run_plan_(context.plan.runs[run]),
      run_(run),
      policy_(policy_for(context.options.policies[run % context.options.policies.size()],
                         context.options.seed, context.model.config())) {
  layers_.resize(context.model.config().n_layers);
  outcome_.name = run_plan_.name;
  prompt_result_.run = run;
}

LayerPlan PolicyRun::layer_plan(int layer) const {
  const ModelConfig& config = context_.model.config();
  const recording::RecordPlan& plan = context_.plan;
  LayerPlan layer_plan;
  layer_plan.layer = layer;
  layer_plan.n_prompt = plan.n_prompt();
  layer_plan.block_size = run_plan_.block_size;
  layer_plan.eviction = {policy_.get(), run_plan_.layer_budgets(layer, config), layer, run_plan_.budget,
                         plan.n_prompt()};
  const bool evicts = policy_ != nullptr && policy_->evicts(layer);
  layer_plan.capacities = cache_rows(config, run_plan_, plan.n_prompt(), layer, evicts);
  layer_plan.oracle = run_plan_.oracle;
  layer_plan.cache_positions = run_plan_.cache_positions;
  layer_plan.cache_format = run_plan_.cache_format;
  layer_plan.lends_whole_prompt = plan.by_layers();
  const bool recorded = std::binary_search(plan.layers.begin(), plan.layers.end(), layer);
  layer_plan.recording = {recorded,         plan.keys,      plan.queries, plan.values,
                          plan.value_norms, plan.attention, plan.heads};
  return layer_plan;
}

LayerRun& PolicyRun::layer(int index) {
  auto& layer = layers_[index];
  if (layer == nullptr) {
    const ModelConfig& config = context_.model.config();
    const LayerRun* lender = config.borrows(index) ? layers_[config.lender(index)].get() : nullptr;
    layer = std::make_unique<LayerRun>(context_.model.transformer(), layer_plan(index), lender);
    note_cache_bytes();
  }
  return *layer;
}

void PolicyRun::finish_records(int index) {
  if (index < 0) return;
  try {
    layers_[index]->finish_records();
  } catch (const InvalidInput&) {
    check_before(index);
    throw;
  }
}

void PolicyRun::check_before(int index) {
  for (int before = 0; before < index; ++before) {
    layers_[before]->finish_records();
    layers_[before]->check();
  }
}

void PolicyRun::note_cache_bytes() {
  std::int64_t n_bytes = 0;
  for (const auto& held : layers_) n_bytes += held == nullptr ? 0 : held->n_bytes();
  outcome_.peak_cache_bytes = std::max(outcome_.peak_cache_bytes, n_bytes);
}

void PolicyRun::finish_prompt_layer(int index) {
  auto& layer = layers_[index];
  outcome_.peak_cache_rows = std::max(outcome_.peak_cache_rows, layer->peak_rows());
  layer->check();
  const LayerTimes times = layer->times();
  outcome_.prompt_seconds += times.all;
  outcome_.attention_seconds += times.attention;
  outcome_.eviction_seconds += times.eviction;
  const ModelConfig& config = context_.model.config();
  for (int head = 0; head < layer->cache().n_heads() && !config.borrows(index); ++head) {
    const analysis::CachedRows rows = layer->cache().stored_rows(head);
    outcome_.held_bytes += analysis::held_bytes(rows);
    outcome_.packed_bytes += analysis::packed_bytes(rows, run_plan_.cache_format);
  }
  if (feeds_back()) return;
  for (int held = 0; held <= index; ++held)
    if (config.last_reader(held) == index) layers_[held].reset();
}

// The head is applied to no position whose logits nobody reads.
void PolicyRun::take_output(const at::Tensor& hidden, std::int64_t first) {
  const auto started = Clock::now();
  const recording::RecordPlan& plan = context_.plan;
  const std::int64_t n = hidden.size(0), n_prompt = plan.n_prompt();
  const std::int64_t skip = std::max<std::int64_t>(0, n_prompt - plan.score_last - first);
  if (plan.logits && skip < n) {
    const auto logits =
        finite_logits(context_.model.transformer(), hidden.narrow(0, skip, n - skip), first + skip);
    prompt_result_.logits.insert(prompt_result_.logits.end(), logits.begin(), logits.end());
  }
  if (first + n != n_prompt) return;
  if (context_.model.has_head()) {
    last_logits_ = finite_logits(context_.model.transformer(), hidden.narrow(0, n - 1, 1), n_prompt - 1);
    keep_top_logits();
  }
  position_ = n_prompt;
  block_ = static_cast<int>(run_plan_.n_prompt_blocks);
  outcome_.prompt_seconds += seconds_since(started);
}

void PolicyRun::keep_top_logits() {
  prompt_result_.top_ids = top_ids(last_logits_, kTopLogits);
  for (const std::int32_t id : prompt_result_.top_ids) prompt_result_.top_logits.push_back(last_logits_[id]);
}

bool PolicyRun::advance() {
  if (has_read_prompt()) {
    PolicyRun* const self = this;
    return advance({&self, 1});
  }
  const bool by_blocks = !prompt_read();
  if (by_blocks) read_prompt_block();
  if (!prompt_read()) return true;
  if (by_blocks)
    for (int index = 0; index < static_cast<int>(layers_.size()); ++index) finish_prompt_layer(index);
  end_prompt();
  return end_unless_more();
}

bool PolicyRun::advance(std::span<PolicyRun* const> runs) {
  std::vector<PolicyRun*> going_on;
  std::ranges::copy_if(runs, std::back_inserter(going_on),
                       [](const PolicyRun* run) { return run->stage_ == Stage::kGenerating; });
  bool more = false;
  for (std::span<PolicyRun* const> left = going_on; !left.empty();) {
    const auto batch = left.first(std::min(left.size(), static_cast<std::size_t>(kThinRows)));
    feed_back(batch);
    for (PolicyRun* const run : batch) more = run->end_unless_more() || more;
    left = left.subspan(batch.size());
  }
  return more;
}

void PolicyRun::read_prompt_block() {
  const std::span<const std::int32_t> ids = context_.options.prompt_ids;
  const std::int64_t first = position_;
  const std::int64_t n = std::min(run_plan_.block_size, context_.plan.n_prompt() - first);
  at::Tensor hidden;
  const NextBlock block{*this, ids.subspan(first, n)};
  const auto record = run_blocks({&block, 1}, hidden).front();
  take_output(hidden, first);
  if (prompt_read() && run_plan_.max_generated > 0) generate_next(record->next_id, record->next_text);
  deliver(record);
}

void PolicyRun::end_prompt() {
  if (run_plan_.max_generated > 0 && outcome_.generated.empty())
    generate_next(prompt_result_.next_id, prompt_result_.next_text);
  for (recording::RecordSink* sink : context_.sinks) sink->prompt_done(prompt_result_);
  stage_ = Stage::kGenerating;
}

// Greedy, one token a block; the last id is never fed back.
void PolicyRun::feed_back(std::span<PolicyRun* const> runs) {
  std::vector<NextBlock> blocks;
  std::vector<std::int64_t> positions;
  for (PolicyRun* const run : runs) {
    blocks.push_back({*run, {&run->outcome_.generated.back(), 1}});
    positions.push_back(run->position_);
  }
  at::Tensor hidden;
  const auto records = run_blocks(blocks, hidden);
  const auto started = Clock::now();
  auto logits = finite_logits(runs.front()->context_.model.transformer(), hidden, positions);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    PolicyRun& run = *runs[i];
    run.last_logits_ = std::move(logits[i]);
    run.generate_next(records[i]->next_id, records[i]->next_text);
    run.deliver(records[i]);
  }
  const double seconds = records.front()->elapsed_ms / 1000 + seconds_since(started);
  for (PolicyRun* const run : runs) run->outcome_.generation_seconds += seconds;
}

bool PolicyRun::end_unless_more() {
  if (!generation_ended()) return true;
  for (const auto& held : layers_)
    if (held != nullptr) outcome_.peak_cache_rows = std::max(outcome_.peak_cache_rows, held->peak_rows());
  for (recording::RecordSink* sink : context_.sinks) sink->run_done(run_, generated_);
  stage_ = Stage::kEnded;
  return false;
}

std::vector<std::shared_ptr<recording::BlockRecord>> PolicyRun::run_blocks(std::span<const NextBlock> blocks,
                                                                           at::Tensor& hidden) {
  const CaptureContext& context = blocks.front().run.context_;
  const Transformer& transformer = context.model.transformer();
  std::vector<std::shared_ptr<recording::BlockRecord>> records;
  std::vector<std::int32_t> ids;
  for (const NextBlock& block : blocks) {
    context.before_block(block.run.position_);
    ids.insert(ids.end(), block.ids.begin(), block.ids.end());
    records.push_back(block.run.next_record(std::ssize(block.ids)));
  }
  const auto started = Clock::now();
  hidden = transformer.embed(ids);
  for (int index = 0; index < context.model.config().n_layers; ++index) {
    const auto weights = transformer.weights().layer(index);
    transformer.weights().prefetch(index + 1);
    hidden = transformer.at_layer(index, hidden);
    try {
      run_layer(blocks, *weights, index, records, hidden);
    } catch (const InvalidInput&) {  // of a number that is not finite, the first layer that met it speaks
      for (const NextBlock& block : blocks) block.run.check_before(index);
      throw;
    }
    transformer.weights().release(index);
    // Of the layer before, while a device is at this one.
    for (const NextBlock& block : blocks) block.run.finish_records(index - 1);
  }
  for (const NextBlock& block : blocks) block.run.finish_records(context.model.config().n_layers - 1);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    PolicyRun& run = blocks[i].run;
    const bool together = run.policy_ != nullptr && run.policy_->slots().all_layers();
    if (together)  // of a number that is not finite, attention knows more than scores do
      for (const auto& layer : run.layers_) layer->check();
    if (together) {
      run.note_cache_bytes();  // caches may have grown
      run.evict_together(*records[i]);
    }
  }
  transformer.wait();
  const double seconds = seconds_since(started);
  for (const NextBlock& block : blocks)
    for (const auto& layer : block.run.layers_) layer->check();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    records[i]->elapsed_ms = static_cast<float>(1000 * seconds);
    blocks[i].run.position_ += records[i]->n_new;
  }
  return records;
}

// What went joins what windows dropped.
void PolicyRun::evict_together(recording::BlockRecord& record) {
  const std::vector<LayerEviction> evictions = LayerRun::evict_together(layers_);
  if (evictions.empty()) return;
  for (recording::LayerBlock& of_layer : record.layers) {
    const LayerEviction& eviction = evictions[of_layer.layer];
    for (std::size_t head = 0; head < eviction.heads.size(); ++head)
      of_layer.evictions[head].add(eviction.heads[head]);
    if (!of_layer.held_bytes.empty()) layers_[of_layer.layer]->record_bytes(of_layer);
  }
}

std::shared_ptr<recording::BlockRecord> PolicyRun::next_record(std::int64_t n_tokens) {
  auto record = std::make_shared<recording::BlockRecord>();
  record->run = run_;
  record->block = block_++;
  record->start = static_cast<std::int32_t>(position_);
  record->n_new = static_cast<std::int32_t>(n_tokens);
  record->prompt = position_ < context_.plan.n_prompt();
  return record;
}

void PolicyRun::run_layer(std::span<const NextBlock> blocks, const LayerWeights& weights, int index,
                          std::span<const std::shared_ptr<recording::BlockRecord>> records,
                          at::Tensor& hidden) {
  const recording::RecordPlan& plan = blocks.front().run.context_.plan;
  const bool recorded = std::binary_search(plan.layers.begin(), plan.layers.end(), index);
  const LayerRun::BeforeBlock before_block = [] {};
  std::vector<LayerRun::AfterBlock> after_block;
  for (const auto& record : records)
    after_block.push_back([&record, recorded](std::int64_t, recording::LayerBlock of_layer) {
      if (!recorded) return;
      auto& layers = record->layers;  // some come later than others that follow them
      layers.insert(std::ranges::upper_bound(layers, of_layer.layer, {}, &recording::LayerBlock::layer),
                    std::move(of_layer));
    });
  std::vector<LayerRun::Part> parts;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    parts.push_back(
        {blocks[i].run.layer(index), {blocks[i].ids, blocks[i].run.position_}, before_block, after_block[i]});
  const Routing routing = LayerRun::run(weights, hidden, parts);
  std::int64_t first = 0;
  for (const NextBlock& block : blocks) {
    const std::int64_t n = std::ssize(block.ids);
    block.run.deliver(rows_of(routing, first, n), index, block.run.position_);
    first += n;
  }
}

void PolicyRun::deliver(const std::shared_ptr<const recording::BlockRecord>& record) {
  const std::int64_t n_tokens = record->n_new;
  for (recording::RecordSink* sink : context_.sinks) sink->block(record);
  context_.after_block(run_, block_, n_tokens, context_.model.config().n_layers);
}

void PolicyRun::deliver(const Routing& routing, int layer, std::int64_t first) {
  const auto& layers = context_.plan.expert_layers;
  if (!routing.experts.defined() || !std::binary_search(layers.begin(), layers.end(), layer)) return;
  auto record = std::make_shared<recording::RoutingRecord>();
  record->run = run_;
  record->layer = layer;
  record->first = first;
  const auto* experts = routing.experts.const_data_ptr<std::int64_t>();
  const auto* weights = routing.weights.const_data_ptr<float>();
  const auto* entropy = routing.entropy.const_data_ptr<float>();
  record->experts.assign(experts, experts + routing.experts.numel());
  record->weights.assign(weights, weights + routing.weights.numel());
  record->entropy.assign(entropy, entropy + routing.entropy.numel());
  for (recording::RecordSink* sink : context_.sinks) sink->routing(record);
}

bool PolicyRun::generation_ended() const {
  const auto& ids = outcome_.generated;
  if (static_cast<std::int64_t>(ids.size()) >= run_plan_.max_generated) return true;
  const auto& eos = context_.model.config().eos_token_ids;
  return !context_.options.ignore_eos && std::find(eos.begin(), eos.end(), ids.back()) != eos.end();
}

void PolicyRun::generate_next(std::int32_t& next_id, std::string& next_text) {
  next_id = choose_token(last_logits_, {}, std::ssize(outcome_.generated));
  next_text = added_text(
      context_.model,
      outcome_.generated.empty() ? context_.options.prompt_ids.back() : outcome_.generated.back(), next_id);
  outcome_.generated.push_back(next_id);
  if (generated_.offset.empty()) generated_.offset.push_back(0);
  generated_.id.push_back(next_id);
  generated_.text += next_text;
  generated_.offset.push_back(static_cast<std::int64_t>(generated_.text.size()));
}

namespace {

// Enough rows for matrix products at full speed, few enough for their results to take little memory.
constexpr std::int64_t kChunkTokens = 2048;

// One run's prompt through one layer; hidden (n_prompt, hidden_size) becomes the layer's output.
void run_layer(const CaptureContext& context, PolicyRun& run, int index, const LayerWeights& weights,
               at::Tensor& hidden) {
  const auto& layers = context.plan.layers;
  const bool recorded = std::binary_search(layers.begin(), layers.end(), index);
  const std::span<const std::int32_t> ids = context.options.prompt_ids;
  const std::int64_t n_prompt = context.plan.n_prompt(), chunk = chunk_tokens(run.run_plan().block_size);
  std::int64_t position = 0;
  int block = 0;
  const auto deliver = [&](std::int64_t n_tokens, recording::LayerBlock record) {
    if (recorded) {
      auto block_record = std::make_shared<recording::BlockRecord>();
      block_record->run = run.index();
      block_record->block = block;
      block_record->start = static_cast<std::int32_t>(position);
      block_record->n_new = static_cast<std::int32_t>(n_tokens);
      block_record->elapsed_ms = std::numeric_limits<float>::quiet_NaN();
      block_record->layers.push_back(std::move(record));
      for (recording::RecordSink* sink : context.sinks) sink->block(block_record);
    }
    position += n_tokens;
    ++block;
    context.after_block(run.index(), block, n_tokens, 1);
  };
  // Whoever waits, or ends here, has what was computed.
  const auto before_block = [&] {
    if (context.holds_up()) run.layer(index).finish_records();
    try {
      context.before_block({});
    } catch (const Cancelled&) {
      run.layer(index).finish_records();
      throw;
    }
  };
  for (std::int64_t first = 0; first < n_prompt; first += chunk) {
    at::Tensor rows = hidden.narrow(0, first, std::min(chunk, n_prompt - first));
    run.deliver(
        run.layer(index).run(weights, rows, {ids.subspan(first, rows.size(0)), first}, before_block, deliver),
        index, first);
  }
  run.layer(index).finish_records();
  run.finish_prompt_layer(index);
}

}  // namespace

std::int64_t chunk_tokens(std::int64_t block_size) {
  return std::max<std::int64_t>(1, kChunkTokens / block_size) * block_size;
}

void run_prompts_by_layers(const CaptureContext& context,
                           const std::vector<std::unique_ptr<PolicyRun>>& runs) {
  const Transformer& transformer = context.model.transformer();
  std::vector<at::Tensor> hidden;  // per run, of the whole prompt
  for (std::size_t run = 0; run < runs.size(); ++run)
    hidden.push_back(transformer.embed(context.options.prompt_ids));
  for (int index = 0; index < context.model.config().n_layers; ++index) {
    const auto weights = transformer.weights().layer(index);
    transformer.weights().prefetch(index + 1);
    for (std::size_t run = 0; run < runs.size(); ++run) {
      hidden[run] = transformer.at_layer(index, hidden[run]);
      run_layer(context, *runs[run], index, *weights, hidden[run]);
    }
    transformer.weights().release(index);
  }
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::int64_t n_last = std::min(context.plan.n_prompt(), context.plan.score_last);
    runs[run]->take_output(hidden[run].narrow(0, context.plan.n_prompt() - n_last, n_last),
                           context.plan.n_prompt() - n_last);
    hidden[run].reset();
  }
}

}  // namespace keyscope::capture
