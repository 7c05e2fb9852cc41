#include "app/evaluation/substitution.hpp"

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

TEST(Substitution, ReplacesAllMatches) {
  EXPECT_EQ(Substitution("a(.)", "<$1>").apply("abac"), "<b><c>");
  EXPECT_EQ(Substitution("x", "$$").apply("xyx"), "$y$");
  EXPECT_EQ(Substitution("x", "").apply(""), "");
  EXPECT_EQ(Substitution(R"(\w+)", "w").apply("caf\u00e9 \u4f60\u597d"), "w w");
}

TEST(Substitution, GrowsAsFarAsTheTextDoes) {
  const std::string text(1000, 'x');
  EXPECT_EQ(Substitution("x", "0123456789").apply(text).size(), 10'000U);
}

TEST(Substitution, ReadsIllFormedBytesAsReplacementCharacters) {
  EXPECT_EQ(Substitution("b", "c").apply("a\xFF"
                                         "b"),
            "a\xEF\xBF\xBD"
            "c");
}

TEST(Substitution, RefusesWhatDoesNotCompile) { EXPECT_THROW(Substitution("a(", ""), InvalidInput); }

TEST(ReplaceAll, GoesOnBehindWhatItPutIn) {
  EXPECT_EQ(replace_all("aaa", "a", "aa"), "aaaaaa");
  EXPECT_EQ(replace_all("\\\\\\", "\\\\", "\\"), "\\\\");
  EXPECT_EQ(replace_all("ffttt", "ft", ""), "ftt");
}

}  // namespace
}  // namespace keyscope::evaluation
