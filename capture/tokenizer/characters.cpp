#include "capture/tokenizer/characters.hpp"

#include <cstdint>

#include <unicode/uchar.h>

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

bool is_word_character(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  const std::uint32_t category = U_MASK(u_charType(c));
  return (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace keyscope::tokenizer
