#include "app/evaluation/plain_text.hpp"

#include <gtest/gtest.h>

#include "app/evaluation/edit_similarity.hpp"

namespace keyscope::evaluation {
namespace {

TEST(PlainText, IllFormedBytesAreReplaced) {
  EXPECT_EQ(code_points("a\xFF"
                        "b"),
            U"a\uFFFDb");
  EXPECT_EQ(lowered("A\xC3"), U"a\uFFFD");
}

TEST(PlainText, PartsWordsWherePythonDoes) {
  EXPECT_EQ(split_words(U" a\u00A0b\x1C"
                        U"c\u200Bd "),
            (std::vector<std::u32string>{U"a", U"b", U"c\u200Bd"}));
  EXPECT_TRUE(split_words(U" \t\n").empty());
}

TEST(EditSimilarity, RoundsHalfToEven) {
  EXPECT_EQ(edit_similarity("", ""), 100);
  EXPECT_EQ(edit_similarity("a", ""), 0);
  EXPECT_EQ(edit_similarity("abcd", "bcde"), 75);
  // 2 · 1 / 16 = 12.5 %, 2 · 3 / 16 = 37.5 %
  EXPECT_EQ(edit_similarity("abbbbbbb", "accccccc"), 12);
  EXPECT_EQ(edit_similarity("aaabbbbb", "aaaccccc"), 38);
}

}  // namespace
}  // namespace keyscope::evaluation
