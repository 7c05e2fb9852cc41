#include "app/figures/token_class.hpp"

#include <string>

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

std::string name_of(std::string_view bytes) {
  return std::string(token_class_names()[static_cast<std::size_t>(token_class(bytes))]);
}

TEST(TokenClass, IsThatOfTheFirstCharacterThatCanBeSeen) {
  for (const char* text : {"the", " the", "\n the", "\xC3\xA9t\xC3\xA9", "\xE6\x97\xA5", " I'm", "\xCC\x81"})
    EXPECT_EQ(name_of(text), "letters") << text;
  for (const char* text : {"7", " 1984", "\xD9\xA3", "\xC2\xBD", "3rd"})
    EXPECT_EQ(name_of(text), "digits") << text;
  for (const char* text :
       {",", " \"", "\xE2\x80\x9CHe", "...", "$", "\xE2\x82\xAC", "<", "->", "\xF0\x9F\x98\x80"})
    EXPECT_EQ(name_of(text), "punctuation") << text;
}

TEST(TokenClass, OfWhiteAloneAsksForALineBreak) {
  for (const char* text : {" ", "   ", "\t", "\xC2\xA0", "\xE3\x80\x80"})
    EXPECT_EQ(name_of(text), "space") << text;
  for (const char* text : {"\n", "\n\n", " \r\n", "\n  "}) EXPECT_EQ(name_of(text), "newline") << text;
}

TEST(TokenClass, OfControlTokensAndPartsOfCharactersIsSpecial) {
  for (const char* text : {"", "<s>", "<|endoftext|>", "</s>", "[SEP]", "\xE2\x82", "\xA9", "\x01"})
    EXPECT_EQ(name_of(text), "special") << text;
  EXPECT_EQ(name_of("[1]"), "punctuation");
  EXPECT_EQ(name_of("<>"), "punctuation");
}

}  // namespace
}  // namespace keyscope::figures
