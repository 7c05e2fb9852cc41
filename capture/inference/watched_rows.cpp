#include "capture/inference/watched_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace keyscope::capture {
namespace {

// The place of a row that went among all that there were, 1 the best: behind those that stayed, and those
// that missed the cut by less, of equal ones the older.
//   returns 0 where nothing was kept for its score, so that there was no cut to miss
std::int64_t rank_of(const recording::HeadEvictions& gone, std::size_t row, std::int64_t n_retained) {
  const float margin = gone.margin[row];
  if (std::isnan(margin)) return 0;
  std::int64_t before = n_retained;
  for (std::size_t i = 0; i < gone.margin.size(); ++i)
    before += gone.margin[i] < margin || (gone.margin[i] == margin && i < row) ? 1 : 0;
  return before + 1;
}

}  // namespace

bool WatchedRows::watches(std::int32_t position) const {
  return std::ranges::binary_search(positions_, position);
}

void WatchedRows::note(const LayerEviction& eviction, std::int64_t n_read) {
  if (!any()) return;
  for (std::size_t head = 0; head < eviction.heads.size(); ++head) {
    const recording::HeadEvictions& gone = eviction.heads[head];
    const std::int64_t n_retained = std::ssize(eviction.retained[head]);
    for (std::size_t row = 0; row < gone.position.size(); ++row)
      if (watches(gone.position[row]))
        lost_.push_back({.layer = layer_,
                         .kv_head = static_cast<int>(head),
                         .position = gone.position[row],
                         .n_read = n_read,
                         .rank = rank_of(gone, row, n_retained),
                         .n_rows = n_retained + std::ssize(gone.position),
                         .margin = gone.margin[row]});
  }
}

void WatchedRows::note_past_window(std::span<const recording::HeadEvictions> heads, std::int64_t n_read) {
  if (!any()) return;
  for (std::size_t head = 0; head < heads.size(); ++head)
    for (std::size_t row = 0; row < heads[head].position.size(); ++row)
      if (watches(heads[head].position[row]))
        lost_.push_back({.layer = layer_,
                         .kv_head = static_cast<int>(head),
                         .position = heads[head].position[row],
                         .n_read = n_read,
                         .past_window = true,
                         .margin = heads[head].margin[row]});
}

}  // namespace keyscope::capture
