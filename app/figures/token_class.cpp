#include "app/figures/token_class.hpp"

#include <algorithm>
#include <array>

#include <unicode/uchar.h>
#include <unicode/utf8.h>

namespace keyscope::figures {
namespace {

constexpr std::array<std::string_view, 6> kNames{"letters", "digits",  "punctuation",
                                                 "space",   "newline", "special"};

bool has_form_of_control_token(std::string_view text) {
  if (text.size() < 3) return false;
  if (text.front() == '<' && text.back() == '>') return true;
  const auto capital = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  return text.front() == '[' && text.back() == ']' &&
         std::ranges::all_of(text.substr(1, text.size() - 2), capital);
}

// Letters with their marks; numbers of every script; what is neither can be seen, and is punctuation or a
// sign.
TokenClass class_of(UChar32 character) {
  if (u_isalpha(character) || (U_GET_GC_MASK(character) & U_GC_M_MASK) != 0) return TokenClass::kLetters;
  if ((U_GET_GC_MASK(character) & U_GC_N_MASK) != 0) return TokenClass::kDigits;
  return u_isgraph(character) ? TokenClass::kPunctuation : TokenClass::kSpecial;
}

}  // namespace

std::span<const std::string_view> token_class_names() { return kNames; }

TokenClass token_class(std::string_view bytes) {
  if (bytes.empty() || has_form_of_control_token(bytes)) return TokenClass::kSpecial;
  const auto* text = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto length = static_cast<std::int32_t>(bytes.size());
  bool breaks = false;
  for (std::int32_t at = 0; at < length;) {
    UChar32 character = 0;
    U8_NEXT(text, at, length, character);
    if (character < 0) return TokenClass::kSpecial;
    if (!u_isUWhiteSpace(character)) return class_of(character);
    breaks = breaks || character == '\n' || character == '\r';
  }
  return breaks ? TokenClass::kNewline : TokenClass::kSpace;
}

}  // namespace keyscope::figures
