#include "capture/tokenizer/byte_level.hpp"

#include <array>

#include "base/text.hpp"

namespace keyscope::tokenizer {
namespace {

constexpr bool stands_for_itself(unsigned c) {
  return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

constexpr unsigned kFirstStandIn = 0x100;
constexpr unsigned kEndOfAlphabet = 0x100 + 68;

struct Alphabet {
  std::array<unsigned short, 256> character{};  // of a byte
  std::array<short, kEndOfAlphabet> byte{};     // of a character, -1 if it stands for none
  constexpr Alphabet() {
    byte.fill(-1);
    unsigned stand_in = kFirstStandIn;
    for (unsigned b = 0; b < 256; ++b) {
      const unsigned c = stands_for_itself(b) ? b : stand_in++;
      character[b] = static_cast<unsigned short>(c);
      byte[c] = static_cast<short>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

void append_byte_characters(std::string_view bytes, std::string& characters) {
  for (const char byte : bytes) {
    const unsigned c = kAlphabet.character[static_cast<unsigned char>(byte)];
    if (c < 0x80) {
      characters.push_back(static_cast<char>(c));
    } else {  // below U+0800: two bytes
      characters.push_back(static_cast<char>(0xC0U | (c >> 6U)));
      characters.push_back(static_cast<char>(0x80U | (c & 0x3FU)));
    }
  }
}

std::optional<unsigned char> byte_of_character(char32_t character) {
  if (character >= kEndOfAlphabet || kAlphabet.byte[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(kAlphabet.byte[character]);
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  std::string bytes;
  bytes.reserve(characters.size());
  for (std::size_t at = 0; at < characters.size();) {
    const auto byte = byte_of_character(next_code_point(characters, at));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace keyscope::tokenizer
