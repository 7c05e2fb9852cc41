#pragma once

#include <cstdint>
#include <vector>

namespace keyscope::tokenizer {

// What a pair of neighbouring tokens becomes, and how early: merges of lower rank go first.
struct Merge {
  std::int32_t rank = -1;
  std::int32_t id = -1;
};

// All merges of a BPE model by their pair of ids: a flat hash table, looked up several times a character.
class MergeTable {
 public:
  // Room for `n_merges`; before the first `set`.
  void reserve(std::size_t n_merges);

  // A pair that is set twice keeps the later merge, as the tokenizers library has it.
  //   left, right: not negative
  void set(std::int32_t left, std::int32_t right, Merge merge);

  // nullptr if these two do not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[find_slot(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = UINT64_MAX;  // no pair: ids are not negative

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U |
           static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t key) const {
    // Fibonacci hashing, Knuth, The Art of Computer Programming 3, section 6.4.
    std::size_t slot = (key * 0x9E3779B97F4A7C15ULL) >> shift_;
    while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  unsigned shift_ = 64;
};

}  // namespace keyscope::tokenizer
