// What of a layer is recorded, and when the host comes to it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"
#include "capture/inference/layer_run.hpp"
#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {

std::vector<float> float_rows(const HostRows& rows, const std::vector<int>& heads, std::int64_t n) {
  const auto& kernels = kernels::of(rows.dtype);
  const std::int64_t n_values = n * rows.head_dim;
  std::vector<float> floats(heads.size() * n_values);
  at::parallel_for(0, static_cast<std::int64_t>(heads.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) {
      const int head = heads[place];
      kernels.to_float(rows.heads[head], floats.data() + place * n_values, n_values);
    }
  });
  return floats;
}

namespace {

// The query heads that read these KV heads.
std::vector<int> query_heads(const std::vector<int>& kv_heads, int group) {
  std::vector<int> heads;
  for (const int kv_head : kv_heads)
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) heads.push_back(head);
  return heads;
}

// Of the recorded heads, keys of earlier blocks that were quantised with this one.
std::vector<recording::SettledKeys> settled_keys(const LayerArithmetic& layer,
                                                 const std::vector<int>& heads) {
  const KvCache& cache = layer.cache();
  if (std::ranges::all_of(heads, [&](int head) { return cache.settled_rows(head).size() == 0; })) return {};
  const HostRows keys = layer.cached_rows(RowPart::kKeys);
  std::vector<recording::SettledKeys> settled;
  for (const int head : heads) {
    const RowSpan rows = cache.settled_rows(head);
    const auto positions = cache.positions(head).subspan(rows.first, rows.size());
    auto& to = settled.emplace_back();
    to.position.assign(positions.begin(), positions.end());
    to.keys.resize(rows.size() * keys.head_dim);
    const auto* first = static_cast<const std::byte*>(keys.heads[head]) + rows.first * keys.row_bytes();
    kernels::of(keys.dtype).to_float(first, to.keys.data(), std::ssize(to.keys));
  }
  return settled;
}

}  // namespace

std::int32_t queries_that_see(std::int64_t position, std::int64_t first, std::int64_t n,
                              std::int64_t window) {
  const std::int64_t end = window > 0 ? std::min(first + n, position + window) : first + n;
  return static_cast<std::int32_t>(std::max<std::int64_t>(0, end - std::max(position, first)));
}

// Nothing but records may ask for what a block of a device gives, and no record for what only the layer as it
// is then can tell.
bool LayerRun::may_record_late() const {
  const LayerRecording& recording = plan_.recording;
  if (!arithmetic_->tells_late() || !recording.layer || recording.attention || recording.value_norms)
    return false;
  if (plan_.cache_format.quantises() || rules_.window > 0 || lends_ || lender_ != nullptr || watched_.any() ||
      plan_.counts.attention)
    return false;
  const analysis::Policy* policy = plan_.eviction.policy;
  if (policy == nullptr) return true;
  const analysis::PolicyNeeds needs = policy->needs();
  const AttentionWants wants = attention_wants(needs);
  return !wants.column_sums && !wants.last_row && wants.windows.empty() && policy->slots().neutral() &&
         !plan_.eviction.with_all_layers();
}

AttentionStatistics LayerRun::arrived(const Unfinished& block) const {
  try {
    return block.statistics();
  } catch (const InvalidInput& error) {
    throw InvalidInput(
        fmt::format("layer {}, tokens from {}: {}", plan_.layer, block.first_position, error.what()));
  }
}

LayerEviction LayerRun::told(const Unfinished& block, const RowPositions& positions) {
  try {
    return block.eviction(positions);
  } catch (const InvalidInput&) {
    check();  // of a number that is not finite, attention knows more
    throw;
  }
}

void LayerRun::finish_records(std::size_t n_left) {
  while (unfinished_.size() > n_left) {
    Unfinished block = std::move(unfinished_.front());
    unfinished_.pop_front();
    finish(block);
  }
}

// The rows that were there at the block's end are those of the block before that stayed, and its own: what
// the cache holds by now is later.
void LayerRun::finish(Unfinished& block) {
  RowPositions positions;
  for (auto& of_head : recorded_positions_) {
    for (std::int64_t i = 0; i < block.n; ++i)
      of_head.push_back(static_cast<std::int32_t>(block.first_position + i));
    positions.emplace_back(of_head);
  }
  record_rows(block);
  if (block.statistics) {
    const AttentionStatistics statistics = arrived(block);
    record_attention(block, positions, statistics, group_mean(statistics.column_sums, group_size()));
  }
  block.record.evictions.resize(positions.size());
  if (block.eviction) {
    LayerEviction eviction = told(block, positions);
    block.record.evictions = std::move(eviction.heads);
    for (std::size_t head = 0; head < positions.size(); ++head) {
      std::vector<std::int32_t> left;
      for (const std::int32_t row : eviction.retained[head]) left.push_back(positions[head][row]);
      recorded_positions_[head] = std::move(left);
    }
  }
  block.after_block(block.n, std::move(block.record));
}

// Of the recorded heads, straight into the record.
void LayerRun::want_weights(Unfinished& block, AttentionWants& wanted) const {
  const int n_kv_heads = cache().n_heads(), group = group_size();
  wanted.n_positions = block.end();
  const std::int64_t matrix = block.n * wanted.n_positions;
  auto& rows = block.record.attention_rows;
  rows.resize(plan_.recording.heads.count(n_kv_heads) * (group * matrix));
  for (int head = 0; head < n_kv_heads * group; ++head) {
    const int place = plan_.recording.heads.query_place(head, group);
    wanted.weights.push_back(place < 0 ? nullptr : rows.data() + place * matrix);
  }
}

// A block's own keys, queries and values, as float32: those of the recorded heads, and no row of another is
// copied. Likewise keys of earlier blocks that were quantised with this one.
void LayerRun::record_rows(Unfinished& block) const {
  recording::LayerBlock& record = block.record;
  const std::vector<int> heads = plan_.recording.heads.list(cache().n_heads());
  if (block.rows.keys) record.keys = float_rows(block.rows.keys(), heads, block.n);
  if (block.rows.keys && plan_.cache_format.quantises())
    record.settled_keys = settled_keys(*arithmetic_, heads);
  if (block.rows.values) record.values = float_rows(block.rows.values(), heads, block.n);
  if (block.rows.queries)
    record.queries = float_rows(block.rows.queries(), query_heads(heads, group_size()), block.n);
}

// How many of the block's queries are among the prompt's last, whose weights are recorded as a sum.
std::int64_t LayerRun::queries_in_recorded_window(const Unfinished& block) const {
  if (!plan_.recording.layer || !block.prompt) return 0;
  return std::clamp<std::int64_t>(block.end() - (plan_.n_prompt - kRecordedWindow), 0, block.n);
}

void LayerRun::record_attention(Unfinished& block, const RowPositions& positions,
                                const AttentionStatistics& statistics, PerRow<double> received) {
  recording::LayerBlock& record = block.record;
  PerRow<float> last;
  if (block.last_of_prompt) last = group_mean(statistics.last_row, group_size());
  for (std::size_t head = 0; head < positions.size(); ++head) {
    auto& attention = record.attention.emplace_back();
    attention.position.assign(positions[head].begin(), positions[head].end());
    for (const std::int32_t position : positions[head])
      attention.queries.push_back(queries_that_see(position, block.first_position, block.n, rules_.window));
    attention.received = std::move(received[head]);
    if (block.last_of_prompt) attention.last = std::move(last[head]);
  }
  const float* entropy = statistics.entropy.const_data_ptr<float>();
  record.entropy.assign(entropy, entropy + statistics.entropy.numel());
  record.attention_sink = statistics.sink_sums;
  const bool in_window = queries_in_recorded_window(block) > 0;  // whose sums are the last
  statistics_.add(positions, statistics.column_sums, in_window ? &statistics.window_sums.back() : nullptr);
  if (block.last_of_prompt) statistics_.finish(record);
}

void LayerRun::record_bytes(recording::LayerBlock& record) const {
  record.held_bytes.clear();
  record.packed_bytes.clear();
  for (int head = 0; head < cache().n_heads(); ++head) {
    const analysis::CachedRows rows = cache().stored_rows(head);
    record.held_bytes.push_back(analysis::held_bytes(rows));
    record.packed_bytes.push_back(analysis::packed_bytes(rows, plan_.cache_format));
  }
}

HeadStatistics::HeadStatistics(std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t n_prompt)
    : n_heads_(n_heads),
      n_kv_heads_(n_kv_heads),
      n_prompt_(n_prompt),
      received_(n_heads * n_prompt),
      window_(n_kv_heads * n_prompt) {}

void HeadStatistics::add(const RowPositions& positions, const PerRow<double>& column_sums,
                         const PerRow<double>* window_sums) {
  const auto group = static_cast<std::size_t>(n_heads_ / n_kv_heads_);
  for (std::size_t head = 0; head < column_sums.size(); ++head) {
    const std::size_t kv_head = head / group;
    double* received = received_.data() + head * n_prompt_;
    double* window = window_.data() + kv_head * n_prompt_;
    for (std::size_t row = 0; row < positions[kv_head].size(); ++row) {
      const std::int32_t at = positions[kv_head][row];
      received[at] += column_sums[head][row];
      if (window_sums != nullptr) window[at] += (*window_sums)[head][row] / static_cast<double>(group);
    }
  }
}

void HeadStatistics::finish(recording::LayerBlock& record) const {
  record.attention_window.assign(window_.begin(), window_.end());
  for (std::int64_t head = 0; head < n_heads_; ++head) {
    const std::span<const double> received(received_.data() + head * n_prompt_, n_prompt_);
    record.gini.push_back(analysis::gini(received));
    record.top_share.push_back(analysis::top_share(received, 0.01));
  }
}

}  // namespace keyscope::capture
