#include "capture/tokenizer/merge_table.hpp"

#include <algorithm>
#include <bit>

namespace keyscope::tokenizer {

void MergeTable::reserve(std::size_t n_merges) {
  const std::size_t n_slots = std::bit_ceil(std::max<std::size_t>(2 * n_merges, 16));
  slots_.assign(n_slots, Slot());
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(n_slots));
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  slots_[find_slot(key)] = {key, merge};
}

}  // namespace keyscope::tokenizer
