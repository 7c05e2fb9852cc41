#include "capture/recording/run_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/record_check.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::recording {

namespace {

// Values at scattered rows of a (n_kv_heads, n_tokens) dataset, collected head by head and written in one
// call.
template <typename T>
class ScatteredRows {
 public:
  // positions: ascending; where they have no gaps they are written as one slab, which is far quicker
  void add(std::size_t head, const std::vector<std::int32_t>& positions, const std::vector<T>& values) {
    if (positions.empty()) return;
    const auto n_rows = static_cast<hsize_t>(positions.size());
    const auto first = static_cast<hsize_t>(positions.front());
    if (static_cast<hsize_t>(positions.back()) - first + 1 == n_rows) {
      slabs_.push_back({head, first, values});
      return;
    }
    for (const std::int32_t position : positions) {
      coordinates_.push_back(head);
      coordinates_.push_back(static_cast<hsize_t>(position));
    }
    values_.insert(values_.end(), values.begin(), values.end());
  }

  void write(hdf5::Dataset& dataset) const {
    for (const Slab& slab : slabs_)
      dataset.write(std::span<const T>(slab.values), {slab.head, slab.first}, {1, slab.values.size()});
    dataset.write_points(std::span<const T>(values_), coordinates_);
  }

 private:
  struct Slab {
    hsize_t head = 0;
    hsize_t first = 0;
    std::vector<T> values;
  };
  std::vector<Slab> slabs_;
  std::vector<hsize_t> coordinates_;  // (head, position) of each of `values_`
  std::vector<T> values_;
};

using hdf5::Dataset;
using hdf5::Group;
using hdf5::Shape;

// Enough for the chunks that one block's evictions touch in one head.
constexpr std::size_t kTraceCacheBytes = 1 << 20;

template <typename T>
void write_at(Dataset& dataset, std::int64_t index, T value) {
  dataset.write(std::span<const T>(&value, 1), {size(index)}, {1});
}

template <typename T>
void write_front(Dataset& dataset, const std::vector<T>& values) {
  dataset.write(std::span<const T>(values), {0}, {values.size()});
}

}  // namespace

RunWriter::RunWriter(Group run, std::shared_ptr<const RecordPlan> plan, const RunPlan& about)
    : group_(std::move(run)), plan_(std::move(plan)), about_(about) {
  block_start_ = group_.open_dataset("block_start");
  block_ms_ = group_.open_dataset("block_ms");
  counter_ = group_.open_dataset("blocks_done");
  journal_blocks_ = group_.open_dataset("partial_attention_blocks");
  generated_ids_ = group_.open_dataset("generated");
  generated_text_ = group_.open_dataset("generated_text");
  generated_offset_ = group_.open_dataset("generated_text_offset");
  layers_.resize(plan_->layers.size());
  routing_.resize(plan_->layers.size());
  if (!plan_->by_layers()) return;
  layer_counter_ = group_.open_dataset("blocks_done_by_layer");
  complete_layers_ = group_.open_dataset("layers_complete");
}

RunWriter::Layer& RunWriter::layer(std::size_t index) {
  auto& found = layers_[index];
  if (!found) found = open_layer(plan_->layers[index]);
  return *found;
}

std::size_t RunWriter::layer_index(int layer) const {
  const auto& layers = plan_->layers;
  return std::lower_bound(layers.begin(), layers.end(), layer) - layers.begin();
}

RunWriter::Layer RunWriter::open_layer(int layer) const {
  const Group group = group_.open_group(layer_group_name(layer));
  Layer opened;
  if (!plan_->has_keys(layer)) return opened;
  const bool holds_keys = plan_->holder(layer) == layer;
  if (plan_->keys && holds_keys) opened.keys = group.open_dataset("keys");
  if (plan_->queries) opened.queries = group.open_dataset("queries");
  if (plan_->values && holds_keys) opened.values = group.open_dataset("values");
  if (plan_->has_value_norms(layer)) opened.value_norms = group.open_dataset("value_norms", kTraceCacheBytes);
  if (plan_->attention) opened.attention = group.open_dataset("attention");
  opened.evicted_at = group.open_dataset("evicted_at", kTraceCacheBytes);
  opened.evicted_margin = group.open_dataset("evicted_margin", kTraceCacheBytes);
  opened.attention_received = group.open_dataset("attention_received", kTraceCacheBytes);
  opened.attention_queries = group.open_dataset("attention_queries", kTraceCacheBytes);
  opened.attention_last = group.open_dataset("attention_last", kTraceCacheBytes);
  opened.entropy = group.open_dataset("attention_entropy", kTraceCacheBytes);
  opened.window = group.open_dataset("attention_window", kTraceCacheBytes);
  opened.gini = group.open_dataset("attention_gini");
  opened.top_share = group.open_dataset("attention_top_share");
  if (plan_->sinks) {
    opened.sink = group.open_dataset("attention_sink");
    opened.sink_logit = group.open_dataset("sink_logit");
  }
  if (group.has("held_bytes")) {
    opened.held_bytes = group.open_dataset("held_bytes");
    opened.packed_bytes = group.open_dataset("packed_bytes");
  }
  if (group.has("partial_attention_received")) {
    opened.partial_received = group.open_dataset("partial_attention_received");
    opened.partial_queries = group.open_dataset("partial_attention_queries");
  }
  opened.sums.resize(plan_->model.heads(layer).n_kv_heads);
  return opened;
}

void RunWriter::write_block(const BlockRecord& record) {
  for (const LayerBlock& block : record.layers) {
    layer_written_ = layer_index(block.layer);
    write_layer(layer(layer_written_), record, block);
  }
  const int counted = plan_->counted_layer();
  if (std::ranges::find(record.layers, counted, &LayerBlock::layer) == record.layers.end()) return;
  write_at(block_start_, record.block, record.start);
  write_at(block_ms_, record.block, record.elapsed_ms);
  ++blocks_done_;
  n_tokens_ = record.start + record.n_new;
  // Where the next block starts is where the counted ones end: a reader needs it if there is no next one.
  if (blocks_done_ < about_.max_blocks())
    write_at(block_start_, blocks_done_, static_cast<std::int32_t>(n_tokens_));
  if (record.next_id >= 0 && generated_.size() < about_.max_generated)
    add_generated(record.next_id, record.next_text);
}

void RunWriter::write_layer(Layer& layer, const BlockRecord& record, const LayerBlock& block) {
  if (!plan_->has_keys(block.layer)) {
    ++layer.blocks_done;
    return;
  }
  write_rows(record, layer, block);
  if (record.prompt) {
    for (AttentionSums& head : layer.sums) head.append(record.start, record.n_new);
    for (std::size_t h = 0; h < block.attention.size(); ++h) layer.sums[h].add(block.attention[h]);
  }
  write_evictions(layer, record, block);
  write_statistics(layer, record, block);
  ++layer.blocks_done;
  if (record.block + 1 == about_.n_prompt_blocks) {
    write_last_attention(layer, block);
    write_remaining_sums(layer);
    layer.sums.clear();
  }
}

void RunWriter::write_rows(const BlockRecord& record, Layer& layer, const LayerBlock& block) {
  const hsize_t start = size(record.start), n_new = size(record.n_new),
                head_dim = size(plan_->model.heads(block.layer).head_dim);
  const hsize_t n_heads = size(plan_->n_row_heads(block.layer)),
                n_kv_heads = size(plan_->n_row_kv_heads(block.layer));
  const auto write = [&](std::optional<Dataset>& dataset, const std::vector<float>& rows,
                         const Shape& count) {
    if (dataset) store_rows(*dataset, plan_->store, rows, {0, start, 0}, count);
  };
  write(layer.keys, block.keys, {n_kv_heads, n_new, head_dim});
  write(layer.queries, block.queries, {n_heads, n_new, head_dim});
  write(layer.values, block.values, {n_kv_heads, n_new, head_dim});
  for (std::size_t head = 0; head < block.settled_keys.size() && layer.keys; ++head)
    write_settled(block.settled_keys[head], head, head_dim, layer);
  if (layer.value_norms)
    layer.value_norms->write(std::span<const float>(block.value_norms), {0, start},
                             {size(plan_->model.heads(block.layer).n_kv_heads), n_new});
  if (layer.attention)
    layer.attention->write(std::span<const float>(block.attention_rows), {0, start, 0},
                           {n_heads, n_new, start + n_new});
}

// Stretches of rows whose positions have no gap, a slab each.
void RunWriter::write_settled(const SettledKeys& head, hsize_t place, hsize_t head_dim, Layer& layer) {
  const auto& at = head.position;
  for (std::size_t first = 0, end = 0; first < at.size(); first = end) {
    while (end < at.size() && at[end] - at[first] == static_cast<std::int32_t>(end - first)) ++end;
    const std::span rows(head.keys.data() + first * head_dim, (end - first) * head_dim);
    store_rows(*layer.keys, plan_->store, rows, {place, size(at[first]), 0}, {1, end - first, head_dim});
  }
}

void RunWriter::write_evictions(Layer& layer, const BlockRecord& record, const LayerBlock& block) {
  ScatteredRows<std::int32_t> evicted_at, queries;
  ScatteredRows<float> margin;
  ScatteredRows<double> received;
  for (std::size_t h = 0; h < block.evictions.size(); ++h) {
    const HeadEvictions& head = block.evictions[h];
    evicted_at.add(h, head.position, std::vector<std::int32_t>(head.position.size(), record.block));
    margin.add(h, head.position, head.margin);
    if (!record.prompt) continue;
    const AttentionSums::Rows rows = layer.sums[h].evict(head.position);
    received.add(h, rows.position, rows.received);
    queries.add(h, rows.position, rows.queries);
  }
  evicted_at.write(layer.evicted_at);
  margin.write(layer.evicted_margin);
  received.write(layer.attention_received);
  queries.write(layer.attention_queries);
}

void RunWriter::write_statistics(Layer& layer, const BlockRecord& record, const LayerBlock& block) {
  const hsize_t n_heads = size(plan_->model.n_heads),
                n_kv_heads = size(plan_->model.heads(block.layer).n_kv_heads);
  if (!block.entropy.empty())
    layer.entropy.write(std::span<const float>(block.entropy), {0, size(record.start)},
                        {n_heads, size(record.n_new)});
  if (!block.attention_window.empty())
    layer.window.write(std::span<const float>(block.attention_window), {0, 0},
                       {n_kv_heads, size(plan_->n_prompt())});
  if (!block.gini.empty()) layer.gini.write(std::span<const double>(block.gini));
  if (!block.top_share.empty()) layer.top_share.write(std::span<const double>(block.top_share));
  if (plan_->sinks) write_sinks(layer, record, block);
  if (block.held_bytes.empty() || !layer.held_bytes) return;
  layer.held_bytes->write(std::span<const std::int64_t>(block.held_bytes));
  layer.packed_bytes->write(std::span<const std::int64_t>(block.packed_bytes));
}

void RunWriter::write_sinks(Layer& layer, const BlockRecord& record, const LayerBlock& block) {
  if (!block.attention_sink.empty())
    layer.sink->write(std::span<const double>(block.attention_sink), {0, size(record.block)},
                      {size(plan_->model.n_heads), 1});
  if (!block.sink_logits.empty()) layer.sink_logit->write(std::span<const float>(block.sink_logits));
}

// Tokens of blocks that are still to come, or under the layer schedule of blocks that were counted: a reader
// leaves out the former, and finds what a kill kept from the latter to be unknown.
void RunWriter::write_routing(const RoutingRecord& record) {
  const std::size_t index = layer_index(record.layer);
  auto& routing = routing_[index];
  if (!routing) {
    const Group group = group_.open_group(layer_group_name(record.layer));
    routing = {group.open_dataset("expert", kTraceCacheBytes),
               group.open_dataset("expert_weight", kTraceCacheBytes),
               group.open_dataset("router_entropy", kTraceCacheBytes)};
  }
  const hsize_t first = size(record.first), n = record.entropy.size(), k = size(plan_->experts_per_token);
  routing->expert.write(std::span<const std::int32_t>(record.experts), {first, 0}, {n, k});
  routing->weight.write(std::span<const float>(record.weights), {first, 0}, {n, k});
  routing->entropy.write(std::span<const float>(record.entropy), {first}, {n});
  if (plan_->by_layers() && first + n >= size(plan_->n_prompt())) routing.reset();
}

void RunWriter::write_last_attention(Layer& layer, const LayerBlock& block) {
  ScatteredRows<float> last;
  for (std::size_t h = 0; h < block.attention.size(); ++h)
    last.add(h, block.attention[h].position, block.attention[h].last);
  last.write(layer.attention_last);
}

void RunWriter::write_remaining_sums(Layer& layer) {
  ScatteredRows<double> received;
  ScatteredRows<std::int32_t> queries;
  for (std::size_t h = 0; h < layer.sums.size(); ++h) {
    const AttentionSums::Rows& rows = layer.sums[h].rows();
    received.add(h, rows.position, rows.received);
    queries.add(h, rows.position, rows.queries);
  }
  received.write(layer.attention_received);
  queries.write(layer.attention_queries);
}

void RunWriter::write_prompt_result(const PromptResult& result) {
  const auto n_top = std::min<std::size_t>({result.top_ids.size(), result.top_logits.size(), kTopLogits});
  if (plan_->logits && !result.logits.empty()) {
    Dataset logits = group_.open_dataset("logits");
    const hsize_t n_scored = result.logits.size() / size(plan_->vocab_size);
    logits.write(std::span<const float>(result.logits), {0, 0}, {n_scored, size(plan_->vocab_size)});
    n_scored_ = static_cast<std::int64_t>(n_scored);
  }
  Dataset top_logits = group_.open_dataset("top_logits"), top_ids = group_.open_dataset("top_ids");
  top_logits.write(std::span<const float>(result.top_logits.data(), n_top), {0}, {n_top});
  top_ids.write(std::span<const std::int32_t>(result.top_ids.data(), n_top), {0}, {n_top});
  n_top_ = static_cast<std::int64_t>(n_top);
  if (result.next_id >= 0 && generated_.size() < about_.max_generated)
    add_generated(result.next_id, result.next_text);
}

void RunWriter::add_generated(std::int32_t id, const std::string& text) {
  if (generated_.offset.empty()) generated_.offset.push_back(0);
  const std::int64_t at = generated_.size(), begin = generated_.offset.back();
  generated_.id.push_back(id);
  generated_.text += text;
  generated_.offset.push_back(begin + static_cast<std::int64_t>(text.size()));
  write_at(generated_ids_, at, id);
  write_at(generated_offset_, at + 1, generated_.offset.back());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  if (size(generated_.offset.back()) <= generated_text_.shape()[0])
    generated_text_.write(std::span(bytes, text.size()), {size(begin)}, {text.size()});
}

void RunWriter::write_generated(const TokenText& generated) {
  check_text(generated, "recording: generated text");
  if (generated.size() > about_.max_generated)
    throw InvalidInput(fmt::format("recording: run '{}' generated {} ids; at most {} were planned",
                                   about_.name, generated.size(), about_.max_generated));
  generated_ = generated;
  write_front(generated_ids_, generated.id);
  std::vector<std::int64_t> offset = generated.offset;
  offset.resize(generated.id.size() + 1, 0);  // without a tokenizer there is no text
  write_front(generated_offset_, offset);
  if (generated.text.size() <= generated_text_.shape()[0])
    write_front(generated_text_, std::vector<std::uint8_t>(generated.text.begin(), generated.text.end()));
}

void RunWriter::write_journal() {
  if (!in_prompt()) return;
  journal_slot_ = 1 - journal_slot_;
  for (auto& opened : layers_) {
    if (!opened || !opened->partial_received) continue;
    for (hsize_t h = 0; h < opened->sums.size(); ++h) {
      const AttentionSums::Rows& rows = opened->sums[h].rows();
      const Shape start{journal_slot_, h, 0}, count{1, 1, rows.position.size()};
      opened->partial_received->write(std::span<const double>(rows.received), start, count);
      opened->partial_queries->write(std::span<const std::int32_t>(rows.queries), start, count);
    }
  }
  write_at(journal_blocks_, static_cast<std::int64_t>(journal_slot_), blocks_done_);
}

void RunWriter::count_blocks() {
  counter_.write(std::span<const std::int64_t>(&blocks_done_, 1));
  if (layer_counter_ && n_complete_layers_ < static_cast<std::int64_t>(layers_.size()))
    count_layer(layer_written_);
}

// A layer that has been read to the prompt's end is closed: no more of it is to come unless tokens are fed
// back.
void RunWriter::count_layer(std::size_t index) {
  const std::int64_t blocks_done = layer(index).blocks_done;
  write_at(*layer_counter_, static_cast<std::int64_t>(index), blocks_done);
  if (blocks_done < about_.n_prompt_blocks) return;
  write_at(*complete_layers_, n_complete_layers_++, static_cast<std::int32_t>(plan_->layers[index]));
  layers_[index].reset();
}

void RunWriter::write_unfinished_sums() {
  for (auto& opened : layers_)
    if (opened && !opened->sums.empty()) write_remaining_sums(*opened);
}

RunExtent RunWriter::extent() const {
  RunExtent extent;
  const std::int64_t fed_back = std::max<std::int64_t>(generated_.size() - 1, 0);
  extent.n_tokens = std::max(plan_->n_prompt() + fed_back, n_tokens_);
  extent.n_blocks = std::max(about_.n_prompt_blocks + fed_back, blocks_done_);
  extent.n_generated = generated_.size();
  extent.n_text_bytes = static_cast<std::int64_t>(generated_.text.size());
  extent.n_top = n_top_;
  extent.n_scored = n_scored_;
  extent.n_layers = n_complete_layers_;
  if (generated_.text.size() > generated_text_.shape()[0]) extent.late_text = generated_.text;
  return extent;
}

namespace {

[[noreturn]] void refuse(std::int32_t position) {
  throw InvalidInput(
      fmt::format("recording: position {} is not in the cache, or was evicted before", position));
}

}  // namespace

void AttentionSums::append(std::int32_t start, std::int32_t n_new) {
  for (std::int32_t i = 0; i < n_new; ++i) rows_.position.push_back(start + i);
  rows_.received.resize(rows_.position.size(), 0);
  rows_.queries.resize(rows_.position.size(), 0);
}

void AttentionSums::add(const HeadAttention& block) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < block.position.size(); ++i) {
    while (at < rows_.position.size() && rows_.position[at] < block.position[i]) ++at;
    if (at == rows_.position.size() || rows_.position[at] != block.position[i]) refuse(block.position[i]);
    rows_.received[at] += block.received[i];
    rows_.queries[at] += block.queries[i];
  }
}

AttentionSums::Rows AttentionSums::evict(const std::vector<std::int32_t>& positions) {
  Rows evicted;
  std::size_t next = 0, kept = 0;
  for (std::size_t at = 0; at < rows_.position.size(); ++at) {
    if (next < positions.size() && rows_.position[at] == positions[next]) {
      evicted.position.push_back(rows_.position[at]);
      evicted.received.push_back(rows_.received[at]);
      evicted.queries.push_back(rows_.queries[at]);
      ++next;
      continue;
    }
    rows_.position[kept] = rows_.position[at];
    rows_.received[kept] = rows_.received[at];
    rows_.queries[kept] = rows_.queries[at];
    ++kept;
  }
  if (next < positions.size()) refuse(positions[next]);
  rows_.position.resize(kept);
  rows_.received.resize(kept);
  rows_.queries.resize(kept);
  return evicted;
}

}  // namespace keyscope::recording
