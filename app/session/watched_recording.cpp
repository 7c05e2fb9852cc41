#include "app/session/watched_recording.hpp"

#include <algorithm>

#include "app/figures/registry.hpp"

namespace keyscope::session {

std::vector<HeadKey> heads_of_figure(const recording::RecordingInfo& info,
                                     const figures::FigureRequest& request) {
  std::vector<HeadKey> heads;
  if (figures::scope_of(request.name) != figures::FigureScope::kRecording) return heads;
  std::vector<int> runs = figures::shows_several_runs(request.name)
                              ? figures::chosen_runs(info, request)
                              : std::vector<int>{figures::only_run(info, request)};
  if (request.reference) runs.push_back(info.run_index(*request.reference));
  for (const int run : runs)
    for (const int layer : info.layers)
      for (int kv_head = 0; kv_head < info.model.n_kv_heads; ++kv_head)
        heads.push_back({run, layer, kv_head});
  return heads;
}

WatchedRecording::WatchedRecording(const recording::Recording& recording, const std::vector<HeadKey>& heads,
                                   JobWatch& watch)
    : recording_(recording), watch_(watch), unread_(heads.begin(), heads.end()) {
  const recording::ModelInfo& model = recording.info()->model;
  group_size_ = std::max(1, model.n_heads / std::max(1, model.n_kv_heads));
  n_heads_ = std::ssize(unread_);
  watch_.note(0, n_heads_);
}

void WatchedRecording::note(const HeadKey& head) const {
  watch_.check();
  const std::lock_guard lock(mutex_);
  if (unread_.erase(head) > 0) watch_.note(n_heads_ - std::ssize(unread_), n_heads_);
}

int WatchedRecording::kv_head_of(int query_head) const { return query_head / group_size_; }

RowMatrixF WatchedRecording::keys(int run, int layer, int kv_head, std::int64_t first,
                                  std::int64_t count) const {
  note({run, layer, kv_head});
  return recording_.keys(run, layer, kv_head, first, count);
}

RowMatrixF WatchedRecording::queries(int run, int layer, int query_head, std::int64_t first,
                                     std::int64_t count) const {
  note({run, layer, kv_head_of(query_head)});
  return recording_.queries(run, layer, query_head, first, count);
}

RowMatrixF WatchedRecording::values(int run, int layer, int kv_head, std::int64_t first,
                                    std::int64_t count) const {
  note({run, layer, kv_head});
  return recording_.values(run, layer, kv_head, first, count);
}

recording::HeadTrace WatchedRecording::trace(int run, int layer, int kv_head) const {
  note({run, layer, kv_head});
  return recording_.trace(run, layer, kv_head);
}

recording::AttentionStatistics WatchedRecording::statistics(int run, int layer) const {
  watch_.check();
  return recording_.statistics(run, layer);
}

RowMatrixF WatchedRecording::attention(int run, int layer, int query_head, std::int64_t first,
                                       std::int64_t count) const {
  note({run, layer, kv_head_of(query_head)});
  return recording_.attention(run, layer, query_head, first, count);
}

RowMatrixF WatchedRecording::logits(int run) const {
  watch_.check();
  return recording_.logits(run);
}

}  // namespace keyscope::session
