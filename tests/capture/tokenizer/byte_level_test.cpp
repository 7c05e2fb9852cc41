#include "capture/tokenizer/byte_level.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace keyscope::tokenizer {
namespace {

std::string characters_of(std::string_view bytes) {
  std::string characters;
  append_byte_characters(bytes, characters);
  return characters;
}

TEST(ByteLevel, KnownCharacters) {
  EXPECT_EQ(characters_of(" a\n\t!~"), "ĠaĊĉ!~");
  EXPECT_EQ(characters_of(std::string_view("\x00\x7F\x80\xA0\xAD\xFF", 6)), "ĀġĢłŃÿ");
}

TEST(ByteLevel, EveryByteHasItsOwnCharacterAndComesBack) {
  std::string all;
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    all.push_back(static_cast<char>(byte));
    seen.insert(characters_of(all.substr(all.size() - 1)));
  }
  EXPECT_EQ(seen.size(), 256U);
  EXPECT_EQ(bytes_of_characters(characters_of(all)), all);
}

TEST(ByteLevel, OtherCharactersStandForNoByte) {
  EXPECT_EQ(bytes_of_characters("a b"), std::nullopt);  // a space is written Ġ
  EXPECT_EQ(bytes_of_characters("▁"), std::nullopt);
  EXPECT_EQ(byte_of_character(0x144), std::nullopt);
  EXPECT_EQ(byte_of_character(0x10FFFF), std::nullopt);
}

}  // namespace
}  // namespace keyscope::tokenizer
