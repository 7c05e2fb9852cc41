#include "app/figures/token_label.hpp"

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

TEST(TokenLabel, ShowsALeadingSpace) {
  EXPECT_EQ(token_label(" the"), "·the");
  EXPECT_EQ(token_label("a b"), "a b");
}

TEST(TokenLabel, NamesControlCharacters) {
  EXPECT_EQ(token_label("\n"), "↵");
  EXPECT_EQ(token_label("\t\r"), "⇥<0D>");
  EXPECT_EQ(token_label(std::string_view("\0x", 2)), "<00>x");
}

TEST(TokenLabel, KeepsUtf8AndNamesOtherBytes) {
  EXPECT_EQ(token_label("naïve €"), "naïve €");
  EXPECT_EQ(token_label("\xE2\x82"), "<E2><82>");          // the start of a euro sign
  EXPECT_EQ(token_label("\xC0\xAF"), "<C0><AF>");          // overlong
  EXPECT_EQ(token_label("\xED\xA0\x80"), "<ED><A0><80>");  // a surrogate
  EXPECT_EQ(token_label("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(TextLabel, KeepsSpaces) { EXPECT_EQ(text_label(" the\n"), " the↵"); }

}  // namespace
}  // namespace keyscope::figures
