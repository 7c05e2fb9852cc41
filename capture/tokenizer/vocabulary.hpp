#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::tokenizer {

// Ids beyond this are taken for damage, not for a vocabulary; today's largest has 262,144 entries.
inline constexpr std::int32_t kLargestId = (1 << 22) - 1;

// Token texts and their ids, both ways, in one block of memory: 128,000 tokens load in milliseconds.
class Vocabulary {
 public:
  enum class Added { kYes, kTextTwice, kIdTwice };

  //   id: 0 … kLargestId
  Added add(std::string_view text, std::int32_t id);

  std::optional<std::int32_t> find(std::string_view text) const;
  bool contains(std::int32_t id) const;
  // The text of an id; empty if no token has it.
  std::string_view text(std::int32_t id) const;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int32_t largest_id() const { return static_cast<std::int32_t>(by_id_.size()) - 1; }  // -1 when empty

 private:
  struct Token {
    std::size_t offset;
    std::uint32_t size;
    std::int32_t id;
  };
  std::string_view text_of(const Token& token) const { return {bytes_.data() + token.offset, token.size}; }
  std::size_t find_slot(std::string_view text) const;
  void grow();

  std::string bytes_;
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> slots_;  // open addressing: index into tokens_ + 1, 0 is free
  std::vector<std::uint32_t> by_id_;  // index into tokens_ + 1, 0 is none
};

}  // namespace keyscope::tokenizer
