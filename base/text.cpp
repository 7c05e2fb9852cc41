#include "base/text.hpp"

#include <cstdint>

#include <unicode/utf8.h>

namespace keyscope::tokenizer {

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  // ICU's macro works on any unsigned-compatible index type; it is given exactly the remaining bytes.
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  UChar32 code_point = 0;
  U8_NEXT_OR_FFFD(bytes, at, text.size(), code_point);
  return static_cast<char32_t>(code_point);
}

void append_utf8(std::string& text, char32_t code_point) {
  std::uint8_t bytes[U8_MAX_LENGTH];
  std::size_t n = 0;
  U8_APPEND_UNSAFE(bytes, n, static_cast<UChar32>(code_point));
  text.append(reinterpret_cast<const char*>(bytes), n);
}

namespace {

// Where the first ill-formed sequence starts; text.size() if there is none.
std::size_t find_invalid(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    if (bytes[at] < 0x80) {
      ++at;
      continue;
    }
    const std::size_t start = at;
    UChar32 code_point = 0;
    U8_NEXT(bytes, at, text.size(), code_point);
    if (code_point < 0) return start;
  }
  return text.size();
}

}  // namespace

std::string_view replace_invalid_utf8(std::string_view text, std::string& buffer) {
  std::size_t at = find_invalid(text);
  if (at == text.size()) return text;
  buffer.assign(text, 0, at);
  buffer.reserve(text.size() + 16);
  while (at < text.size()) append_utf8(buffer, next_code_point(text, at));
  return buffer;
}

}  // namespace keyscope::tokenizer
