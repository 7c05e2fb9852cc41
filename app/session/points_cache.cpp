#include "app/session/points_cache.hpp"

#include <algorithm>

namespace keyscope::session {

std::shared_ptr<const HeadPoints> PointsCache::find(const HeadKey& head) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) { return entry->head == head; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front();
}

void PointsCache::put(std::shared_ptr<const HeadPoints> points) {
  entries_.remove_if([&](const auto& entry) { return entry->head == points->head; });
  entries_.push_front(std::move(points));
  std::size_t bytes = 0;
  auto entry = entries_.begin();
  for (; entry != entries_.end(); ++entry) {
    bytes += (*entry)->bytes();
    if (bytes > max_bytes_ && entry != entries_.begin()) break;  // the newest stays whatever its size
  }
  entries_.erase(entry, entries_.end());
}

}  // namespace keyscope::session
