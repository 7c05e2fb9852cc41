#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "app/session/head_points.hpp"

namespace keyscope::session {

// Heads that were read, the most recently used first, up to a number of bytes.
class PointsCache {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{768} << 20U;

  explicit PointsCache(std::size_t max_bytes = kDefaultBytes) : max_bytes_(max_bytes) {}

  std::shared_ptr<const HeadPoints> find(const HeadKey& head);
  void put(std::shared_ptr<const HeadPoints> points);  // replaces an earlier reading of the same head
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::size_t max_bytes_;
  std::list<std::shared_ptr<const HeadPoints>> entries_;
};

}  // namespace keyscope::session
