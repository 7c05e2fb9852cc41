#include "base/regex.hpp"

#include <ctime>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> matches(const std::string& expression, const std::string& text) {
  std::vector<std::string> found;
  Regex(expression).for_each_match(text, [&](std::span<const Regex::Range> groups) {
    found.push_back(text.substr(groups[0].begin, groups[0].end - groups[0].begin));
  });
  return found;
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string refusal(const std::string& expression, const std::string& text) {
  try {
    matches(expression, text);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return {};
}

TEST(RegexMatches, AreFoundFromLeftToRight) {
  EXPECT_THAT(matches("a+|b", "xaab"), ElementsAre("aa", "b"));
  EXPECT_THAT(matches("x*", "ax"), ElementsAre("", "x"));
}

// In one match, in many, and where every position is tried: each ends soon, with a sentence.
TEST(RegexMatches, ThatGoBackAndForthGiveUpSoon) {
  for (const auto& [expression, text] :
       std::vector<std::pair<std::string, std::string>>{{"(a+)+$", std::string(40, 'a') + "!"},
                                                        {"a*a*a*b|a", std::string(600, 'a')},
                                                        {"(a|a)*$", std::string(60, 'a') + "!"}}) {
    const double before = processor_seconds();
    EXPECT_THAT(refusal(expression, text), HasSubstr("gave up at byte")) << expression;
    EXPECT_LT(processor_seconds() - before, 20) << expression;  // a sanitizer may be on
  }
}

TEST(RegexMatches, OfLongTextsHaveTheTimeTheyNeed) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "some words, ";
  EXPECT_EQ(matches(R"(\s?\w+|[^\s\w]+)", text).size(), 300'000U);
  EXPECT_EQ(refusal("(?:x+x+)+y", std::string(5'000'000, 'z')), "");  // nothing to go back in
}

}  // namespace
}  // namespace keyscope
