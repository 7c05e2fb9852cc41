#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace keyscope::tokenizer {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// The code point that starts at `at`, which moves behind it.
//   text: valid UTF-8; at < text.size()
char32_t next_code_point(std::string_view text, std::size_t& at);

void append_utf8(std::string& text, char32_t code_point);

// Text as Python's `bytes.decode("utf-8", errors="replace")` reads it: every maximal part of an ill-formed
// sequence becomes one U+FFFD (Unicode 15, section 3.9, "substitution of maximal subparts"). Returns `text`
// itself where it is valid; otherwise a view of `buffer`.
std::string_view replace_invalid_utf8(std::string_view text, std::string& buffer);

}  // namespace keyscope::tokenizer
