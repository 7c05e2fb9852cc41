#include "capture/tokenizer/pre_tokenizer.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::string> split(const json& description, std::string_view text, bool at_start = true) {
  std::vector<std::string> pieces;
  read_pre_tokenizer(JsonField(description, "tokenizer.json", "pre_tokenizer"))
      ->split(text, at_start, [&](std::string_view piece, bool) { pieces.emplace_back(piece); });
  return pieces;
}

json split_by(const char* key, const char* pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{key, pattern}}}, {"behavior", behavior}, {"invert", invert}};
}

// Expected values: tokenizers 0.23.3.
TEST(PreTokenizer, ByteLevel) {
  EXPECT_THAT(split({{"type", "ByteLevel"}, {"add_prefix_space", false}}, "Hi  you é"),
              ElementsAre("Hi", "Ġ", "Ġyou", "ĠÃ©"));
  EXPECT_THAT(split({{"type", "ByteLevel"}, {"add_prefix_space", true}}, "Hi 1"), ElementsAre("ĠHi", "Ġ1"));
  EXPECT_THAT(split({{"type", "ByteLevel"}, {"add_prefix_space", true}}, " Hi"), ElementsAre("ĠHi"));
  EXPECT_THAT(split({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}, "a b"),
              ElementsAre("aĠb"));
}

TEST(PreTokenizer, Digits) {
  EXPECT_THAT(split({{"type", "Digits"}, {"individual_digits", true}}, "a12 ½Ⅷ٣b"),
              ElementsAre("a", "1", "2", " ", "½", "Ⅷ", "٣", "b"));
  EXPECT_THAT(split({{"type", "Digits"}, {"individual_digits", false}}, "12a34½"),
              ElementsAre("12", "a", "34½"));
}

TEST(PreTokenizer, Metaspace) {
  const json always{
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  EXPECT_THAT(split(always, "a  b "), ElementsAre("▁a", "▁", "▁b", "▁"));
  EXPECT_THAT(split(always, "▁a"), ElementsAre("▁a"));
  const json first{
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_THAT(split(first, "a b"), ElementsAre("▁a▁b"));
  EXPECT_THAT(split(first, " a b"), ElementsAre("▁a▁b"));
  EXPECT_THAT(split(first, "a b", false), ElementsAre("a▁b"));
  const json legacy{
      {"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", false}, {"str_rep", "_"}};
  EXPECT_THAT(split(legacy, "a b"), ElementsAre("a", "_b"));
}

TEST(PreTokenizer, OnlyTheFirstPieceIsAtTheStart) {
  const json description{{"type", "Sequence"},
                         {"pretokenizers",
                          {split_by("String", "-", "Removed"),
                           {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}}}}};
  EXPECT_THAT(split(description, "a-b"), ElementsAre("▁a", "b"));
  EXPECT_THAT(split(description, "-b"), ElementsAre("b"));
}

TEST(PreTokenizer, WordsSpacesAndPunctuation) {
  EXPECT_THAT(split({{"type", "Whitespace"}}, "a b.c_d  !!é"), ElementsAre("a", "b", ".", "c_d", "!!", "é"));
  EXPECT_THAT(split({{"type", "WhitespaceSplit"}}, " a\u00a0b\u200bc "), ElementsAre("a", "b\u200bc"));
  EXPECT_THAT(split({{"type", "Punctuation"}}, "a.b!!c$+<¡"),
              ElementsAre("a", ".", "b", "!", "!", "c", "$", "+", "<", "¡"));
  EXPECT_THAT(split({{"type", "CharDelimiterSplit"}, {"delimiter", "-"}}, "a--b"), ElementsAre("a", "b"));
}

TEST(PreTokenizer, SplitByUnknownExpression) {
  EXPECT_THAT(split(split_by("Regex", R"(\d)", "MergedWithPrevious"), "a1b22"), ElementsAre("a1", "b2", "2"));
  EXPECT_THAT(split(split_by("Regex", R"(\d+)", "Removed", true), "a1b22"), ElementsAre("1", "22"));
}

std::string error_of(const json& description) {
  try {
    split(description, "");
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PreTokenizer, SaysWhatIsWrong) {
  using testing::HasSubstr;
  EXPECT_EQ(read_pre_tokenizer(std::nullopt), nullptr);
  EXPECT_THAT(error_of({{"type", "BertPreTokenizer"}}),
              HasSubstr("pre_tokenizer.type: found \"BertPreTokenizer\""));
  EXPECT_THAT(error_of({{"type", 3}}), HasSubstr("pre_tokenizer.type: found 3, expected a string"));
  EXPECT_THAT(error_of({{"type", "Sequence"}}), HasSubstr("found no \"pretokenizers\""));
  EXPECT_THAT(error_of(split_by("Regex", "(", "Isolated")),
              HasSubstr("pre_tokenizer.pattern.Regex: found \"(\""));
  EXPECT_THAT(error_of(split_by("String", "", "Isolated")), HasSubstr("found an empty string"));
  EXPECT_THAT(error_of(split_by("String", "x", "Sideways")),
              HasSubstr("pre_tokenizer.behavior: found \"Sideways\""));
  EXPECT_THAT(error_of({{"type", "Metaspace"}, {"replacement", "ab"}}), HasSubstr("expected one character"));
  EXPECT_THAT(error_of(json::array()), HasSubstr("pre_tokenizer: found an array of 0, expected an object"));
}

}  // namespace
}  // namespace keyscope::tokenizer
