#include "capture/tokenizer/characters.hpp"

#include <array>
#include <cstdint>

#include <unicode/uchar.h>

#include "base/text.hpp"

namespace keyscope::tokenizer {

namespace {

constexpr unsigned ascii_classes(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return kLetter | kUpperLike;
  if (c >= 'a' && c <= 'z') return kLetter | kLowerLike;
  if (c >= '0' && c <= '9') return kNumber;
  if (c == '\r' || c == '\n') return kSpace | kNewline;
  if (c == ' ' || (c >= 0x09 && c <= 0x0D)) return kSpace;
  return c > 0x20 && c < 0x7F ? kPunctuation : 0U;
}

struct AsciiTable {
  unsigned char classes[128] = {};
  constexpr AsciiTable() {
    for (unsigned char c = 0; c < 128; ++c) classes[c] = static_cast<unsigned char>(ascii_classes(c));
  }
};
constexpr AsciiTable kAscii;

}  // namespace

unsigned character_classes(char32_t code_point) {
  if (code_point < 128) return kAscii.classes[code_point];
  const std::uint32_t category = U_MASK(u_charType(static_cast<UChar32>(code_point)));
  unsigned classes = 0;
  if ((category & U_GC_L_MASK) != 0) classes |= kLetter;
  if ((category & U_GC_N_MASK) != 0) classes |= kNumber;
  if ((category & U_GC_M_MASK) != 0) classes |= kMark;
  if ((category & U_GC_P_MASK) != 0) classes |= kPunctuation;
  // White_Space is the separators and seven controls, of which only U+0085 lies beyond ASCII.
  if ((category & U_GC_Z_MASK) != 0 || code_point == 0x85) classes |= kSpace;
  constexpr std::uint32_t kUncased = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
  if ((category & (U_GC_LU_MASK | U_GC_LT_MASK | kUncased)) != 0) classes |= kUpperLike;
  if ((category & (U_GC_LL_MASK | kUncased)) != 0) classes |= kLowerLike;
  return classes;
}

unsigned unicode_age(char32_t code_point) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(code_point), age);
  return age[0];
}

bool is_word_character(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  const std::uint32_t category = U_MASK(u_charType(c));
  return (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

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

namespace {

Metaspace::Prepend read_prepend(const JsonField& field) {
  const auto scheme = field.optional("prepend_scheme");
  if (!scheme)
    return field.boolean_or("add_prefix_space", true) ? Metaspace::Prepend::kAlways
                                                      : Metaspace::Prepend::kNever;
  const std::string name = scheme->string();
  if (name == "always") return Metaspace::Prepend::kAlways;
  if (name == "first") return Metaspace::Prepend::kFirst;
  if (name == "never") return Metaspace::Prepend::kNever;
  scheme->fail(shown(name), "always, first or never");
}

}  // namespace

Metaspace read_metaspace(const JsonField& field) {
  Metaspace metaspace;
  const JsonField replacement = field.member("replacement");
  metaspace.replacement = replacement.string();
  std::size_t end = 0;
  if (!metaspace.replacement.empty()) next_code_point(metaspace.replacement, end);
  if (end == 0 || end != metaspace.replacement.size())
    replacement.fail(shown(metaspace.replacement), "one character");
  metaspace.prepend = read_prepend(field);
  metaspace.split = field.boolean_or("split", true);
  return metaspace;
}

}  // namespace keyscope::tokenizer
