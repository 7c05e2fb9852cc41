// What of a layer is recorded.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "analysis/statistics.hpp"
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

void record_rows(const LayerArithmetic& layer, const LayerRecording& recording,
                 recording::LayerBlock& record) {
  const int n_kv_heads = layer.cache().n_heads();
  const std::vector<int> heads = recording.heads.list(n_kv_heads);
  const std::int64_t n = layer.n_queries();
  if (recording.keys) record.keys = float_rows(layer.block_rows(RowPart::kKeys), heads, n);
  if (recording.keys) record.settled_keys = settled_keys(layer, heads);
  if (recording.values) record.values = float_rows(layer.block_rows(RowPart::kValues), heads, n);
  if (!recording.queries) return;
  const HostRows queries = layer.block_queries();
  const int group = static_cast<int>(queries.heads.size()) / n_kv_heads;
  record.queries = float_rows(queries, query_heads(heads, group), n);
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

void HeadStatistics::add(const KvCache& cache, const PerRow<double>& column_sums,
                         const PerRow<double>* window_sums) {
  const auto group = static_cast<std::size_t>(n_heads_ / n_kv_heads_);
  for (std::size_t head = 0; head < column_sums.size(); ++head) {
    const std::size_t kv_head = head / group;
    const auto positions = cache.positions(static_cast<int>(kv_head));
    double* received = received_.data() + head * n_prompt_;
    double* window = window_.data() + kv_head * n_prompt_;
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const std::int32_t at = positions[row];
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
