#include "base/text.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/sha256.hpp"

namespace keyscope::session {

namespace {

// What a shell makes of the words: each in brackets.
std::string read_by_shell(const std::string& words) {
  FILE* pipe =
      popen(("printf '[%s]' " + words).c_str(), "r");  // NOLINT(cert-env33-c): the shell is the point
  std::string text;
  std::array<char, 256> part{};
  for (std::size_t n = 0; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), n);
  pclose(pipe);
  return text;
}

TEST(ShellWords, PlainWordsStayAsTheyAre) {
  EXPECT_EQ(quote_words({"keyscope", "--layer", "3", "a/b-c_d.h5"}), "keyscope --layer 3 a/b-c_d.h5");
  EXPECT_EQ(quote_words({}), "");
}

TEST(ShellWords, AShellReadsThemBack) {
  const std::vector<std::string> words{"",        "two words", "it's",      "$HOME `id` $(id)",
                                       "a\"b\\c", "*?[x]",     "line\nend", "~/x;y & z|",
                                       "größe",   "'",         "''"};
  std::string expected;
  for (const std::string& word : words) {
    expected.append("[").append(word).append("]");
    EXPECT_EQ(read_by_shell(quote_word(word)), "[" + word + "]");
  }
  EXPECT_EQ(read_by_shell(quote_words(words)), expected);
}

}  // namespace

}  // namespace keyscope::session

namespace keyscope::validation {

namespace {

constexpr auto kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(NumberText, HasDecimalsByItsSize) {
  EXPECT_EQ(number_text(0.12345), "0.123");
  EXPECT_EQ(number_text(-12.345), "−12.35");
  EXPECT_EQ(number_text(280.46), "280.5");
  EXPECT_EQ(number_text(0), "0.000");
  EXPECT_EQ(number_text(-1.24e-5), "−1.2e−05");
  EXPECT_EQ(number_text(kNaN), "–");
}

TEST(NumberText, AnIntervalNeedsTwoSamples) {
  EXPECT_EQ(interval_text(0.1, 0.3), "[0.100, 0.300]");
  EXPECT_EQ(interval_text(kNaN, kNaN), "–");
}

}  // namespace

}  // namespace keyscope::validation

namespace keyscope {

namespace {

TEST(AmountText, BytesAreShownInTheirUnit) {
  EXPECT_EQ(bytes_text(12), "12 bytes");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{640} << 10), "640 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 30), "3.0 GiB");
}

TEST(AmountText, CountsHaveTheirPlural) {
  EXPECT_EQ(counted(1, "layer"), "1 layer");
  EXPECT_EQ(counted(0, "KV head"), "0 KV heads");
}

TEST(AmountText, GibibytesAreComparedInOneUnit) {
  EXPECT_EQ(gib_text(0), "0.00 GiB");
  EXPECT_EQ(gib_text(std::int64_t{1} << 28), "0.25 GiB");
  EXPECT_EQ(gib_text(std::int64_t{5} << 29, 1), "2.5 GiB");
}

TEST(DurationText, SaysWhatMatters) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(65), "1 min 05 s");
  EXPECT_EQ(duration_text(7620), "2 h 07 min");
  EXPECT_EQ(duration_text(-1), "0 s");
}

TEST(UtcNow, IsIso8601) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), std::string_view("2026-03-01T09:30:00Z").size());
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now.back(), 'Z');
  EXPECT_EQ(now.find_first_not_of("0123456789-T:Z"), std::string::npos);
}

TEST(XmlText, KeepsLineEndsAndQuotesAndDropsWhatXmlForbids) {
  EXPECT_EQ(xml_text(std::string_view("<b a=\"1\">&\0\n\t\x1B'", 15)), "&lt;b a=\"1\"&gt;&amp;\n\t'");
  EXPECT_EQ(xml_text("caf\xC3\xA9 \xFF!"), "café \xEF\xBF\xBD!");
}

TEST(TerminalText, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(terminal_text("caf\xC3\xA9\t\xE2\x82\xAC\n"), "café\t€\n");
  EXPECT_EQ(terminal_text("\x1B[31m\x07\r\x7F"), "\\x1b[31m\\x07\\x0d\\x7f");
  EXPECT_EQ(terminal_text("\xC2\x9B"
                          "2J"),
            "\\x9b2J");
  EXPECT_EQ(terminal_text("\u202Etxt.exe\u2069"), "\\u202etxt.exe\\u2069");
  EXPECT_EQ(terminal_text(std::string_view("a\0\xFF", 3)), "a\\x00\xEF\xBF\xBD");
}

TEST(ShownList, IsCutWhereItIsLong) {
  std::vector<int> numbers{1, 2, 3};
  EXPECT_EQ(shown_list(numbers), "1, 2, 3");
  EXPECT_EQ(shown_list(std::vector<std::string>{}), "");
  numbers.resize(1000, 7);
  EXPECT_TRUE(shown_list(numbers, "; ").starts_with("1; 2; 3; 7; 7; "));
  EXPECT_TRUE(shown_list(numbers).ends_with("7, 7, … and 968 more"));
}

TEST(HtmlText, MarkupIsText) {
  EXPECT_EQ(html_text("<b a=\"1\" c='2'>&amp;"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
}

TEST(HtmlText, WhatAPageCannotHoldIsReplaced) {
  EXPECT_EQ(html_text(std::string_view("a\0b\nc\x7F", 6)), "a b c ");
  EXPECT_EQ(html_text("caf\xC3\xA9 \xFF!"), "café \xEF\xBF\xBD!");
}

}  // namespace

}  // namespace keyscope

namespace keyscope::tokenizer {

namespace {

std::string replaced(std::string_view text) {
  std::string buffer;
  return std::string(replace_invalid_utf8(text, buffer));
}

TEST(Utf8, ValidTextIsNotCopied) {
  const std::string text = "a é € 🙂 \xEF\xBF\xBF\xF4\x8F\xBF\xBF";
  std::string buffer;
  EXPECT_EQ(replace_invalid_utf8(text, buffer).data(), text.data());
}

TEST(Utf8, IsRecognised) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a é € 🙂"));
  EXPECT_FALSE(is_utf8("a \xFF"));
  EXPECT_FALSE(is_utf8("\xE2\x96"));
}

// Expected values: CPython 3.11, bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesMaximalPartsAsPythonDoes) {
  const std::string r = "\uFFFD";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"\x80", r},
      {"a\xFF"
       "b",
       "a" + r + "b"},
      {"\xC0\xAF", r + r},                  // overlong
      {"\xE0\x80\xAF", r + r + r},          // overlong
      {"\xF4\x90\x80\x80", r + r + r + r},  // beyond U+10FFFF
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xE2\x96", r},                      // cut at the end
      {"\xE2\x96"
       "a",
       r + "a"},  // cut before an a
      {"\xF0\x9F\x99"
       "\xF0\x9F\x99\x82",
       r + "🙂"},  // cut before another
      {"\xF0\x9F\xE2\x82\xAC", r + "€"},
      {"\xC3", r},
      {std::string("\0\xFE\0", 3), std::string("\0\uFFFD\0", 5)},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_EQ(replaced(text), expected) << testing::PrintToString(text);
}

TEST(Utf8, CodePointsComeBack) {
  for (const char32_t c : {U'\0', U'a', U'\x7F', U'\x80', U'é', U'\u07FF', U'\u0800', U'€', U'\uFFFF', U'🙂',
                           char32_t{0x10FFFF}}) {
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    EXPECT_EQ(next_code_point(text, at), c);
    EXPECT_EQ(at, text.size());
  }
}

}  // namespace

}  // namespace keyscope::tokenizer

namespace keyscope::capture {

namespace {

// FIPS 180-4's own examples.
TEST(Sha256, AgreesWithTheStandard) {
  Sha256 empty;
  EXPECT_EQ(empty.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.add("a");
  abc.add("bc");
  EXPECT_EQ(abc.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(FuzzyScore, LettersInOrderFitInEitherCase) {
  EXPECT_TRUE(fuzzy_score("xpt", "Export this view"));
  EXPECT_TRUE(fuzzy_score("ETV", "Export this view"));
  EXPECT_FALSE(fuzzy_score("vte", "Export this view"));
  EXPECT_FALSE(fuzzy_score("exporting", "Export this view"));
  EXPECT_FALSE(fuzzy_score("x", ""));
}

TEST(FuzzyScore, WordsFitInAnyOrder) {
  EXPECT_TRUE(fuzzy_score("view export", "Export this view"));
  EXPECT_TRUE(fuzzy_score("  view  ", "Export this view"));
  EXPECT_FALSE(fuzzy_score("view import", "Export this view"));
}

TEST(FuzzyScore, NothingTypedFitsEverything) {
  EXPECT_TRUE(fuzzy_score("", "Export this view"));
  EXPECT_TRUE(fuzzy_score(" ", ""));
}

TEST(FuzzyScore, BeginningsOfWordsAndLettersTogetherComeFirst) {
  EXPECT_GT(*fuzzy_score("text", "View: Text"), *fuzzy_score("text", "The exit"));
  EXPECT_GT(*fuzzy_score("lb", "Last block"), *fuzzy_score("lb", "Available"));
  EXPECT_GT(*fuzzy_score("cos", "View: Cosines"), *fuzzy_score("cos", "Measure: mean key query cosine"));
  EXPECT_GT(*fuzzy_score("earlier", "Earlier run: model: none, keydiff, sink"),
            *fuzzy_score("earlier", "Beside: keydiff, earlier run"));
}

// The first "a" is no beginning of "ab"; the quickest route from the left would take it.
TEST(FuzzyScore, TheBestRouteCounts) {
  EXPECT_EQ(*fuzzy_score("ab", "xaxxab"), *fuzzy_score("ab", "xxxxab"));
}

}  // namespace

}  // namespace keyscope::capture
