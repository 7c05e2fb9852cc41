#include "capture/tokenizer/characters.hpp"

#include <gtest/gtest.h>
#include <unicode/uchar.h>

namespace keyscope::tokenizer {
namespace {

TEST(CharacterClass, EveryCodePointAgreesWithUnicodeProperties) {
  for (UChar32 c = 0; c <= 0x10FFFF; ++c) {
    const unsigned classes = character_classes(static_cast<char32_t>(c));
    const auto in = [c](std::uint32_t mask) { return (U_MASK(u_charType(c)) & mask) != 0; };
    const auto has = [classes](unsigned wanted) { return (classes & wanted) != 0; };
    ASSERT_EQ(has(kLetter), in(U_GC_L_MASK)) << c;
    ASSERT_EQ(has(kNumber), in(U_GC_N_MASK)) << c;
    ASSERT_EQ(has(kMark), in(U_GC_M_MASK)) << c;
    ASSERT_EQ(has(kSpace), u_isUWhiteSpace(c) != 0) << c;
    ASSERT_EQ(has(kNewline), c == '\r' || c == '\n') << c;
    ASSERT_EQ(has(kUpperLike), in(U_GC_LU_MASK | U_GC_LT_MASK | U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK))
        << c;
    ASSERT_EQ(has(kLowerLike), in(U_GC_LL_MASK | U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK)) << c;
    ASSERT_TRUE(c < 128 || has(kPunctuation) == in(U_GC_P_MASK)) << c;
  }
}

TEST(CharacterClass, AsciiSymbolsArePunctuation) {
  for (const char c : {'$', '+', '<', '=', '>', '^', '`', '|', '~', '!', '_'})
    EXPECT_EQ(character_classes(static_cast<char32_t>(c)), kPunctuation) << c;
  EXPECT_EQ(character_classes(0x7F), 0U);
}

TEST(CharacterClass, WordCharacters) {
  for (const char32_t c : {U'a', U'Ω', U'7', U'_', U'\u0301', U'中', U'\u200D', U'Ⅷ'})
    EXPECT_TRUE(is_word_character(c));
  for (const char32_t c : {U' ', U'-', U'½', U'€', U'🙂', U'\u0085'}) EXPECT_FALSE(is_word_character(c));
}

}  // namespace
}  // namespace keyscope::tokenizer
