#include "base/text.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope::tokenizer {
namespace {

std::string replaced(std::string_view text) {
  std::string buffer;
  return std::string(replace_invalid_utf8(text, buffer));
}

TEST(Utf8, ValidTextIsNotCopied) {
  const std::string text = "a é € 🙂 \xEF\xBF\xBF\xF4\x8F\xBF\xBF";
  std::string buffer;
  EXPECT_EQ(replace_invalid_utf8(text, buffer).data(), text.data());
}

// Expected values: CPython 3.11, bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesMaximalPartsAsPythonDoes) {
  const std::string r = "\uFFFD";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"\x80", r},
      {"a\xFF"
       "b",
       "a" + r + "b"},
      {"\xC0\xAF", r + r},                  // overlong
      {"\xE0\x80\xAF", r + r + r},          // overlong
      {"\xF4\x90\x80\x80", r + r + r + r},  // beyond U+10FFFF
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xE2\x96", r},                      // cut at the end
      {"\xE2\x96"
       "a",
       r + "a"},  // cut before an a
      {"\xF0\x9F\x99"
       "\xF0\x9F\x99\x82",
       r + "🙂"},  // cut before another
      {"\xF0\x9F\xE2\x82\xAC", r + "€"},
      {"\xC3", r},
      {std::string("\0\xFE\0", 3), std::string("\0\uFFFD\0", 5)},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_EQ(replaced(text), expected) << testing::PrintToString(text);
}

TEST(Utf8, CodePointsComeBack) {
  for (const char32_t c : {U'\0', U'a', U'\x7F', U'\x80', U'é', U'\u07FF', U'\u0800', U'€', U'\uFFFF', U'🙂',
                           char32_t{0x10FFFF}}) {
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    EXPECT_EQ(next_code_point(text, at), c);
    EXPECT_EQ(at, text.size());
  }
}

}  // namespace
}  // namespace keyscope::tokenizer
