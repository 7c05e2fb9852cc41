#include "capture/tokenizer/vocabulary.hpp"

#include <functional>

namespace keyscope::tokenizer {

// The slot that holds `text`, or the free one where it belongs. Linear probing at a load of at most a half.
std::size_t Vocabulary::find_slot(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] != 0 && text_of(tokens_[slots_[slot] - 1]) != text) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), 0);
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    slots_[find_slot(text_of(tokens_[i]))] = static_cast<std::uint32_t>(i + 1);
}

Vocabulary::Added Vocabulary::add(std::string_view text, std::int32_t id) {
  if (2 * (tokens_.size() + 1) > slots_.size()) grow();
  const std::size_t slot = find_slot(text);
  if (slots_[slot] != 0) return Added::kTextTwice;
  if (contains(id)) return Added::kIdTwice;
  tokens_.push_back({bytes_.size(), static_cast<std::uint32_t>(text.size()), id});
  bytes_.append(text);
  slots_[slot] = static_cast<std::uint32_t>(tokens_.size());
  if (static_cast<std::size_t>(id) >= by_id_.size()) by_id_.resize(static_cast<std::size_t>(id) + 1, 0);
  by_id_[static_cast<std::size_t>(id)] = static_cast<std::uint32_t>(tokens_.size());
  return Added::kYes;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t token = slots_[find_slot(text)];
  if (token == 0) return std::nullopt;
  return tokens_[token - 1].id;
}

bool Vocabulary::contains(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < by_id_.size() && by_id_[static_cast<std::size_t>(id)] != 0;
}

std::string_view Vocabulary::text(std::int32_t id) const {
  return contains(id) ? text_of(tokens_[by_id_[static_cast<std::size_t>(id)] - 1]) : std::string_view();
}

}  // namespace keyscope::tokenizer
