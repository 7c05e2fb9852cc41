#include "capture/tokenizer/regex_pattern.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {
namespace {

using testing::ElementsAre;

// Matches in brackets, gaps as they are.
std::string marked(const std::string& expression, const std::string& text) {
  std::string result;
  RegexPattern(expression).find_all(text, [&](std::size_t begin, std::size_t end, bool is_match) {
    const std::string stretch = text.substr(begin, end - begin);
    result += is_match ? "[" + stretch + "]" : stretch + "|";
  });
  return result;
}

TEST(RegexPattern, MatchesAndGapsCoverTheText) {
  EXPECT_EQ(marked(R"(\d+)", "a12b3"), "a|[12]b|[3]");
  EXPECT_EQ(marked(R"(\p{L}+)", "é中 ж1"), "[é中] |[ж]1|");
  EXPECT_EQ(marked("x", ""), "");
}

TEST(RegexPattern, EmptyMatchesCutWithoutTakingAnything) {
  EXPECT_EQ(marked("(?=b)", "aébéb"), "aé|bé|b|");
  EXPECT_EQ(marked("x*", "axé"), "a|[x]é|");
}

TEST(RegexPattern, DoesNotCompile) {
  EXPECT_THROW(RegexPattern("(a"), InvalidInput);
  EXPECT_THROW(RegexPattern(R"(\C)"), InvalidInput);  // would cut characters apart
}

TEST(RegexPattern, CatastrophicPatternGivesUpWithAMessage) {
  const std::string text = std::string(200, 'a') + "b";
  try {
    marked("(a|aa)+$", text);
    FAIL() << "expected InvalidInput";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("(a|aa)+$"));
  }
}

}  // namespace
}  // namespace keyscope::tokenizer
