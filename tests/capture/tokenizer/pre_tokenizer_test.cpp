#include "capture/tokenizer/pre_tokenizer.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unicode/uchar.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/tokenizer/characters.hpp"
#include "capture/tokenizer/normalizer.hpp"

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
  EXPECT_THAT(split({{"type", "Punctuation"}}, "a\U00011661b\u166Dc"),
              ElementsAre("a\U00011661b", "\u166D", "c"));
  EXPECT_THAT(split({{"type", "CharDelimiterSplit"}, {"delimiter", "-"}}, "a--b"), ElementsAre("a", "b"));
}

TEST(PreTokenizer, SplitByUnknownExpression) {
  EXPECT_THAT(split(split_by("Regex", R"(\d)", "MergedWithPrevious"), "a1b22"), ElementsAre("a1", "b2", "2"));
  EXPECT_THAT(split(split_by("Regex", R"(\d+)", "Removed", true), "a1b22"), ElementsAre("1", "22"));
}

// goldens/make_split_goldens.py, by the tokenizers library
TEST(PreTokenizer, ExpressionsMeanWhatOnigurumaSays) {
  const json goldens = parse_json(read_file(std::filesystem::path(KEYSCOPE_SOURCE_DIR) /
                                            "tests/capture/tokenizer/goldens/splits.golden.json"));
  const auto texts = goldens.at("texts").get<std::vector<std::string>>();
  ASSERT_GT(goldens.at("cases").size(), 20U);
  for (const json& each : goldens.at("cases")) {
    const auto expression = each.at("expression").get<std::string>();
    const json replacing{{"type", "Replace"}, {"pattern", {{"Regex", expression}}}, {"content", "<>"}};
    const auto normalizer = read_normalizer(JsonField(replacing, "tokenizer.json", "normalizer"));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(json(split(split_by("Regex", expression.c_str(), "Isolated"), texts[i])),
                each.at("isolated")[i])
          << each.at("name") << ": " << texts[i];
      std::string replaced = texts[i];
      normalizer->normalize(replaced);
      EXPECT_EQ(json(replaced), each.at("replaced")[i]) << each.at("name") << ": " << texts[i];
    }
    for (const auto& [behavior, expected] : each.at("splits").items()) {
      const bool invert = behavior.ends_with(" inverted");
      const std::string word = behavior.substr(0, behavior.find(' '));
      EXPECT_EQ(json(split(split_by("Regex", expression.c_str(), word.c_str(), invert),
                           each.at("split").get<std::string>())),
                expected)
          << each.at("name") << ", " << behavior;
    }
  }
}

std::string split_error(const json& description) {
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
  EXPECT_THAT(split_error({{"type", "BertPreTokenizer"}}),
              HasSubstr("pre_tokenizer.type: found \"BertPreTokenizer\""));
  EXPECT_THAT(split_error({{"type", 3}}), HasSubstr("pre_tokenizer.type: found 3, expected a string"));
  EXPECT_THAT(split_error({{"type", "Sequence"}}), HasSubstr("found no \"pretokenizers\""));
  EXPECT_THAT(split_error(split_by("Regex", "(", "Isolated")),
              HasSubstr("pre_tokenizer.pattern.Regex: found \"(\""));
  EXPECT_THAT(split_error(split_by("String", "", "Isolated")), HasSubstr("found an empty string"));
  EXPECT_THAT(split_error(split_by("String", "x", "Sideways")),
              HasSubstr("pre_tokenizer.behavior: found \"Sideways\""));
  EXPECT_THAT(split_error({{"type", "Metaspace"}, {"replacement", "ab"}}),
              HasSubstr("expected one character"));
  EXPECT_THAT(split_error(json::array()),
              HasSubstr("pre_tokenizer: found an array of 0, expected an object"));
}

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
  EXPECT_EQ(marked("(?=b)", "aébéb"), "aé|[]bé|[]b|");
  EXPECT_EQ(marked("x*", "axé"), "[]a|[x]é|[]");
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

std::vector<std::string> split(SplitBehavior behavior, bool invert, const std::string& text = "--a-b--c-") {
  std::vector<std::string> pieces;
  split_at(*literal_pattern("-"), behavior, invert, text,
           [&](std::size_t begin, std::size_t end) { pieces.push_back(text.substr(begin, end - begin)); });
  return pieces;
}

// Expected values: tokenizers 0.23.3, pre_tokenizers.Split("-", behavior, invert).
TEST(SplitBehavior, AsTheTokenizersLibrary) {
  EXPECT_THAT(split(SplitBehavior::kIsolated, false),
              ElementsAre("-", "-", "a", "-", "b", "-", "-", "c", "-"));
  EXPECT_THAT(split(SplitBehavior::kIsolated, true),
              ElementsAre("-", "-", "a", "-", "b", "-", "-", "c", "-"));
  EXPECT_THAT(split(SplitBehavior::kRemoved, false), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split(SplitBehavior::kRemoved, true), ElementsAre("-", "-", "-", "-", "-", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious, false), ElementsAre("-", "-", "a-", "b-", "-", "c-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious, true), ElementsAre("-", "-a", "-b", "-", "-c", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext, false), ElementsAre("-", "-a", "-b", "-", "-c", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext, true), ElementsAre("-", "-", "a-", "b-", "-", "c-"));
  EXPECT_THAT(split(SplitBehavior::kContiguous, false), ElementsAre("--", "a", "-", "b", "--", "c", "-"));
  EXPECT_THAT(split(SplitBehavior::kContiguous, true), ElementsAre("--", "a", "-", "b", "--", "c", "-"));
}

TEST(SplitBehavior, EmptyTextHasNoPieces) {
  for (const auto behavior : {SplitBehavior::kIsolated, SplitBehavior::kRemoved, SplitBehavior::kContiguous})
    EXPECT_TRUE(split(behavior, false, "").empty());
}

TEST(SplitBehavior, UnknownNameIsRefused) {
  const nlohmann::json name = "isolated";
  EXPECT_THROW(read_split_behavior(JsonField(name, "f.json", "behavior")), FileError);
}

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
