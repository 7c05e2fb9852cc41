#include "capture/tokenizer/text_trie.hpp"

namespace keyscope::tokenizer {
namespace {

std::uint64_t edge_key(std::uint32_t node, char byte) {
  return static_cast<std::uint64_t>(node) << 8U | static_cast<unsigned char>(byte);
}

}  // namespace

void TextTrie::add(std::string_view text, std::int64_t value) {
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint32_t& next =
        i == 0 ? root_[static_cast<unsigned char>(text[0])] : edges_[edge_key(node, text[i])];
    if (next == 0) {
      next = static_cast<std::uint32_t>(values_.size());
      values_.push_back(kNone);
    }
    node = next;
  }
  if (values_[node] == kNone) values_[node] = value;
}

TextTrie::Match TextTrie::find(std::string_view text, std::size_t from) const {
  if (empty()) return {};
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    Match match;
    std::uint32_t node = root_[static_cast<unsigned char>(text[begin])];
    for (std::size_t at = begin + 1; node != 0; ++at) {
      if (values_[node] != kNone) match = {begin, at, values_[node]};
      if (at == text.size()) break;
      const auto edge = edges_.find(edge_key(node, text[at]));
      node = edge == edges_.end() ? 0 : edge->second;
    }
    if (match.value != kNone) return match;
  }
  return {};
}

}  // namespace keyscope::tokenizer
