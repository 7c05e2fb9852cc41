#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace keyscope::tokenizer {

// A set of texts with values, searched for all at once. A search takes time proportional to the text, times
// the longest entry where the text is full of its beginnings.
class TextTrie {
 public:
  static constexpr std::int64_t kNone = -1;

  // An entry that is there already keeps its first value.
  //   text: not empty; value: not negative
  void add(std::string_view text, std::int64_t value);

  struct Match {
    std::size_t begin = 0, end = 0;
    std::int64_t value = kNone;  // kNone: nothing was found
  };
  // The leftmost, and there the longest, entry in text[from, …).
  Match find(std::string_view text, std::size_t from) const;

  bool empty() const { return values_.size() == 1; }

 private:
  std::vector<std::int64_t> values_{kNone};                 // of the nodes; the first is the root
  std::array<std::uint32_t, 256> root_{};                   // the root's edges, 0: none
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // of the others: node and byte to node
};

}  // namespace keyscope::tokenizer
