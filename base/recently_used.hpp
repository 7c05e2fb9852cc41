#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <type_traits>
#include <utility>

namespace keyscope {

// What was read or made, the most recently used first, up to a number of bytes; the newest stays whatever its
// size.
//   Value: with `bytes()`; kKey: its member that it is found by
template <class Value, auto kKey>
class RecentlyUsed {
 public:
  using Key = std::remove_cvref_t<decltype(std::declval<const Value&>().*kKey)>;
  using Pointer = std::shared_ptr<const Value>;

  explicit RecentlyUsed(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null where it is not there.
  Pointer find(const Key& key) {
    const auto found =
        std::ranges::find_if(values_, [&](const Pointer& value) { return (*value).*kKey == key; });
    if (found == values_.end()) return nullptr;
    values_.splice(values_.begin(), values_, found);
    return values_.front();
  }

  // Replaces an earlier one with the same key.
  void put(Pointer value) {
    values_.remove_if([&](const Pointer& earlier) { return (*earlier).*kKey == (*value).*kKey; });
    values_.push_front(std::move(value));
    std::size_t bytes = 0;
    const auto is_too_much = [&](const Pointer& kept) { return (bytes += kept->bytes()) > max_bytes_; };
    auto first_gone = std::ranges::find_if(values_, is_too_much);
    if (first_gone == values_.begin()) ++first_gone;
    values_.erase(first_gone, values_.end());
  }

  void clear() { values_.clear(); }
  template <typename Which>
  void remove_if(const Which& which) {
    values_.remove_if([&](const Pointer& value) { return which(*value); });
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::size_t max_bytes_;
  std::list<Pointer> values_;
};

}  // namespace keyscope
