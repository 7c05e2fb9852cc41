#include "capture/recording/recording.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::recording {

int RecordingInfo::run_index(std::string_view name) const {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [&](const RunInfo& run) { return run.plan.name == name; });
  return found == runs.end() ? -1 : static_cast<int>(found - runs.begin());
}

std::vector<int> RecordingInfo::all_layers() const {
  std::vector<int> all;
  std::ranges::merge(layers, keyless_layers, std::back_inserter(all));
  return all;
}

std::string layer_refusal(const RecordingInfo& info, int layer) {
  if (std::ranges::binary_search(info.layers, layer)) return "";
  if (!info.has_keys(layer))
    return fmt::format("layer {} has no keys: its mixer is recurrent; layers with keys: {}", layer,
                       shown_list(info.layers));
  return fmt::format("layer {} was not recorded; recorded layers: {}", layer, shown_list(info.layers));
}

void require_keys_of(const RecordingInfo& info, int layer) {
  if (const std::string refusal = layer_refusal(info, layer); !refusal.empty())
    throw FileError(fmt::format("{}: {}", info.source, refusal));
}

void check_kv_head(const RecordingInfo& info, int layer, int kv_head) {
  const int n = info.model.heads(layer).n_kv_heads;
  if (kv_head < 0 || kv_head >= n)
    throw FileError(fmt::format("{}: there is no KV head {}{}; there are {}", info.source, kv_head,
                                info.model.layer_heads.empty() ? "" : fmt::format(" in layer {}", layer), n));
}

std::vector<LayerHead> RecordingInfo::all_heads() const {
  std::vector<LayerHead> all;
  for (const int layer : layers)
    for (int kv_head = 0; kv_head < model.heads(layer).n_kv_heads; ++kv_head) all.push_back({layer, kv_head});
  return all;
}

std::vector<LayerHead> RecordingInfo::recorded_heads() const {
  std::vector<LayerHead> recorded;
  for (const int layer : layers)
    for (const int kv_head : kv_heads(layer)) recorded.push_back({layer, kv_head});
  return recorded;
}

int kv_row_place(const RecordingInfo& info, int layer, int kv_head) {
  check_kv_head(info, layer, kv_head);
  const int place = info.heads.place(kv_head);
  if (place < 0) throw FileError(fmt::format("{}: {}", info.source, info.heads.refusal(kv_head)));
  return place;
}

int query_row_place(const RecordingInfo& info, int layer, int query_head) {
  if (query_head < 0 || query_head >= info.model.n_heads)
    throw FileError(fmt::format("{}: there is no query head {}; there are {}", info.source, query_head,
                                info.model.n_heads));
  const int group_size = info.model.group_size(layer);
  kv_row_place(info, layer, query_head / group_size);
  return info.heads.query_place(query_head, group_size);
}

RowMatrixF Recording::group_queries(int run, int layer, int kv_head, std::int64_t first,
                                    std::int64_t count) const {
  const int group_size = info()->model.group_size(layer);
  const RowMatrixF of_first = queries(run, layer, kv_head * group_size, first, count);
  const Eigen::Index n = of_first.rows();
  RowMatrixF all(group_size * n, of_first.cols());
  all.topRows(n) = of_first;
  for (int g = 1; g < group_size; ++g)  // as many of each, though a live run may have gone on
    all.middleRows(g * n, n) = queries(run, layer, kv_head * group_size + g, first, n);
  return all;
}

std::vector<std::int32_t> retained_positions(std::span<const std::int32_t> evicted_at, std::int64_t n_seen,
                                             std::int64_t block) {
  std::vector<std::int32_t> retained;
  const auto n_rows = std::min(n_seen, static_cast<std::int64_t>(evicted_at.size()));
  for (std::int64_t i = 0; i < n_rows; ++i) {
    const std::int32_t at = evicted_at[i];
    if (at < 0 || at > block) retained.push_back(static_cast<std::int32_t>(i));
  }
  return retained;
}

std::int64_t tokens_seen(const RunInfo& run, std::int64_t block) {
  const std::int64_t next = block + 1;
  if (next <= 0) return 0;
  if (next >= run.blocks_done) return run.n_tokens;
  return run.block_start[next];
}

}  // namespace keyscope::recording
