#include "capture/tokenizer/word_scanner.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/pre_tokenizer.hpp"

namespace keyscope::tokenizer {
namespace {

using testing::ElementsAre;

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt2Grouped =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTwoDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kWithMarks =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kWithoutSlash =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<std::string> kExpressions{
    kGpt2,  kGpt2Grouped,       kLlama3, kQwen2, kTwoDigits, kCl100k, kWithMarks,
    kO200k, kO200kWithoutSlash, kTekken};

std::vector<std::string> pieces(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string> found;
  pattern.find_all(text, [&](std::size_t begin, std::size_t end, bool) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

std::vector<std::string> pieces(const char* expression, std::string_view text) {
  return pieces(*word_scanner_for(expression), text);
}

TEST(WordScanner, Gpt2ByHand) {
  EXPECT_THAT(
      pieces(kGpt2, "I'll say  hello, 123 times!\n\n  Don'T"),
      ElementsAre("I", "'ll", " say", " ", " hello", ",", " 123", " times", "!", "\n\n ", " Don", "'", "T"));
  EXPECT_THAT(pieces(kGpt2, "a  "), ElementsAre("a", "  "));
}

TEST(WordScanner, Llama3ByHand) {
  EXPECT_THAT(pieces(kLlama3, "I'LL say\t(hello) 12345!?\n\n  x \n y"),
              ElementsAre("I", "'LL", " say", "\t", "(hello", ")", " ", "123", "45", "!?\n\n", " ", " x",
                          " \n", " y"));
  EXPECT_THAT(pieces(kLlama3, "'ſx"), ElementsAre("'ſ", "x"));  // the long s folds to s
}

TEST(WordScanner, CasedWordsByHand) {
  EXPECT_THAT(pieces(kO200k, "XMLHttpRequest's camelCase ABC/\n"),
              ElementsAre("XMLHttp", "Request's", " camel", "Case", " ABC", "/\n"));
  EXPECT_THAT(pieces(kTekken, "ªAAA AAªA"), ElementsAre("ª", "AAA", " AAª", "A"));
}

TEST(WordScanner, AnUnknownExpressionHasNone) {
  EXPECT_EQ(word_scanner_for(R"(\p{L}+)"), nullptr);
  EXPECT_EQ(word_scanner_for(""), nullptr);
  for (const auto& expression : kExpressions) EXPECT_NE(word_scanner_for(expression), nullptr) << expression;
}

// What the classes, the white space rules and the contractions distinguish.
const std::vector<std::string> kAtoms{
    "a",      "b",      "s",  "t",    "l",    "L",      "S",      "A",      "Z",      "é",
    "É",      "ſ",      "ß",  "ж",    "Ж",    "中",     "ʰ",      "ª",      "ǅ",      "क",
    "्",       "\u0301", "1",  "2",    "٣",    "½",      "Ⅷ",      " ",      " ",      "  ",
    "\n",     "\r",     "\t", "\v",   "\f",   "\u0085", "\u00A0", "\u2028", "\u3000", "\u200B",
    "\u200D", "'",      "'s", "'LL",  "'Re",  "’",      ".",      "!",      "/",      "_",
    "-",      "€",      "🙂", "\x1C", "\x7F", "\u0378", "\uE000", "<|x|>",  "'ſ"};

std::string random_text(std::mt19937& random, int most) {
  std::string text;
  const int n = std::uniform_int_distribution<int>(1, most)(random);
  // Runs of one atom lead into the rules that look ahead.
  for (int i = 0; i < n; ++i) {
    const auto& atom = kAtoms[std::uniform_int_distribution<std::size_t>(0, kAtoms.size() - 1)(random)];
    const int times = std::uniform_int_distribution<int>(0, 4)(random) == 0 ? 3 : 1;
    for (int k = 0; k < times; ++k) text += atom;
  }
  return text;
}

TEST(WordScanner, AgreesWithOnigurumaOnRandomText) {
  std::mt19937 random(7);
  std::vector<std::string> texts;
  for (int i = 0; i < 4000; ++i) texts.push_back(random_text(random, 16));
  for (const auto& expression : kExpressions) {
    const RegexPattern oracle(expression);
    const auto scanner = word_scanner_for(expression);
    for (const auto& text : texts)
      ASSERT_EQ(pieces(*scanner, text), pieces(oracle, text)) << expression << "\n" << text;
  }
}

// Every character that Debian 12's Oniguruma knows, which has Unicode 14, alone, in words, in numbers, behind
// spaces and before a contraction. Of private use only the ends of each area.
TEST(WordScanner, AgreesWithOnigurumaOnEveryAssignedCharacter) {
  std::vector<std::string> texts(1);
  for (UChar32 c = 0; c <= 0x10FFFF; ++c) {
    UVersionInfo age;
    u_charAge(c, age);
    const bool assigned = age[0] > 0 && age[0] <= 14 && u_charType(c) != U_SURROGATE;
    const bool inside =
        u_charType(c) == U_PRIVATE_USE_CHAR && c != 0xE000 && c != 0xF8FF && (c & 0xFFFF) > 0x10;
    if (!assigned || inside) continue;
    std::string character;
    append_utf8(character, static_cast<char32_t>(c));
    if (texts.back().size() > 1 << 16) texts.emplace_back();
    texts.back() += " x" + character + "Y" + character + character + "1" + character + " \n" + character +
                    "'s" + character;
  }
  for (const auto& expression : kExpressions) {
    const RegexPattern oracle(expression);
    const auto scanner = word_scanner_for(expression);
    for (const auto& text : texts) {
      std::vector<std::size_t> expected, found;
      oracle.find_all(text, [&](std::size_t, std::size_t end, bool) { expected.push_back(end); });
      scanner->find_all(text, [&](std::size_t, std::size_t end, bool) { found.push_back(end); });
      const auto [ours, theirs] = std::ranges::mismatch(found, expected);
      if (found != expected) {
        const std::size_t at = ours == found.begin() ? 0 : *(ours - 1);
        ADD_FAILURE() << expression << "\nat " << shown(text.substr(at, 40)) << ": a piece of "
                      << (ours == found.end() ? 0 : *ours - at) << ", not "
                      << (theirs == expected.end() ? 0 : *theirs - at) << " bytes";
        break;
      }
    }
  }
}

// A matcher that looks ahead without end from every position would need days for these.
TEST(WordScanner, LongRunsTakeLinearTime) {
  constexpr std::size_t kLength = 1 << 20;
  const std::vector<std::string> units{" ",  "a",  "A", "1",  "!",  "\n",     "\t", " \n",
                                       "aA", "ªA", "'", "'s", " '", "\u0301", "中"};
  for (const auto& unit : units) {
    std::string text;
    while (text.size() < kLength) text += unit;
    text += "x";
    for (const auto& expression : kExpressions) {
      std::size_t covered = 0;
      bool contiguous = true;
      word_scanner_for(expression)->find_all(text, [&](std::size_t begin, std::size_t end, bool) {
        contiguous = contiguous && begin == covered;
        covered = end;
      });
      ASSERT_TRUE(contiguous) << expression << " on " << unit;
      ASSERT_EQ(covered, text.size());
    }
  }
}

}  // namespace
}  // namespace keyscope::tokenizer
