#include "app/evaluation/needle_prompt.hpp"

#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DrawnWords : public ::testing::Test {
 protected:
  Words read(const std::string& text, bool skip_bad = false) const {
    std::ofstream(folder_.file("words.txt"), std::ios::binary) << text;
    return words_of(folder_.file("words.txt").string(), city_names(), skip_bad);
  }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
};

TEST_F(DrawnWords, HaveNoSpaceAtTheirEnds) {
  const Words words = read("  New York \t\r\n\n\u00a0\u3000Troms\u00f8\u2009\nOslo");
  EXPECT_THAT(words.words, ElementsAre("New York", "Troms\u00f8", "Oslo"));
  EXPECT_THAT(words.bad_rows, IsEmpty());
}

TEST_F(DrawnWords, AreThereOnceWithoutThatSpace) {
  EXPECT_THAT(refusal("Oslo\nLima\n\u00a0Oslo \n"), HasSubstr("words.txt, line 3: Oslo is there twice"));
}

TEST_F(DrawnWords, BlankLinesAndControlCharactersAreNone) {
  EXPECT_THAT(refusal("Oslo\n  \t \n\u00a0\nLi\tma\n"),
              AllOf(HasSubstr("line 2: is blank"), HasSubstr("3 rows are bad (lines 2, 3, 4)")));
  EXPECT_THAT(refusal("Li\tma\n"), HasSubstr("line 1: has the control character U+0009"));
  EXPECT_THAT(refusal("Li\u0085ma\n"), HasSubstr("U+0085"));
  EXPECT_THAT(refusal("Lim\xE1\n"), HasSubstr("line 1: is no UTF-8"));
  const Words words = read("Oslo\n \nLi\x01ma\nLima\n", true);
  EXPECT_THAT(words.words, ElementsAre("Oslo", "Lima"));
  EXPECT_EQ(words.bad_rows.size(), 2U);
}

TEST_F(DrawnWords, AreTheEmbeddedOnesWithoutAFile) {
  EXPECT_EQ(words_of("", city_names(), false).words.size(), city_names().size());
}

}  // namespace

// Lengths and places against trying everything.

namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

class NeedlePrompts : public ::testing::Test {
 protected:
  std::int64_t n_tokens(const std::string& text) const { return std::ssize(tokenizer_->encode(text, false)); }

  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  }

  NeedleCase one_needle() const {
    NeedleCase about;
    about.haystack = make_haystack(generated_text(3000, 5));
    about.needle = {"Oslo", "1234567"};
    about.needle_template = "The number for {key} is: {value}.";
    about.question_template = "\n\nThe number for {key} is:";
    return about;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::Tokenizer::load(KEYSCOPE_DEMO_MODEL);
};

// The reference: every number of words, from the most down, written out by hand.
TEST_F(NeedlePrompts, AreTheLongestThatFit) {
  const NeedleCase about = one_needle();
  const std::string needle = "The number for Oslo is: 1234567.", question = "\n\nThe number for Oslo is:";
  for (const std::int64_t length : {60, 100, 173, 256}) {
    std::size_t most = about.haystack.word_ends.size();
    std::string text;
    for (;; --most) {
      text = needle + " " + about.haystack.first_words(most).text + question;
      if (std::ssize(tokenizer_->encode(text, true)) <= length) break;
    }
    for (const std::size_t near : {std::size_t{0}, most, most + 40, std::size_t{1}}) {
      const NeedlePrompt prompt = needle_prompt(about, length, 0, *tokenizer_, near);
      EXPECT_EQ(prompt.text, text) << length << ", near " << near;
      EXPECT_EQ(prompt.n_words, most);
      EXPECT_EQ(prompt.ids, tokenizer_->encode(text, true));
    }
  }
}

TEST_F(NeedlePrompts, StandAfterTheLastSentenceEndAtOrBeforeTheDepth) {
  const NeedleCase about = one_needle();
  for (const double depth : {0.0, 10.0, 33.0, 50.0, 99.0, 100.0}) {
    const NeedlePrompt prompt = needle_prompt(about, 200, depth, *tokenizer_);
    const Haystack left = about.haystack.first_words(prompt.n_words);
    const double limit = depth / 100 * static_cast<double>(n_tokens(left.text));
    std::size_t place = 0;
    for (const std::size_t end : left.sentence_ends)
      if (static_cast<double>(n_tokens(left.text.substr(0, end))) <= limit) place = end;
    const std::string before = left.text.substr(0, place);
    EXPECT_THAT(prompt.text,
                StartsWith(before + (before.empty() ? "" : " ") + "The number for Oslo is: 1234567."))
        << depth;
    EXPECT_EQ(prompt.needle_token, n_tokens(before));
    EXPECT_THAT(prompt.text, EndsWith("\n\nThe number for Oslo is:"));
    EXPECT_LE(std::ssize(prompt.ids), 200);
    EXPECT_GT(std::ssize(prompt.ids), 190);
  }
}

// Against whole numbers: 29 % of 200 tokens are 58, and in doubles 0.29 * 200 is less.
TEST_F(NeedlePrompts, ASentenceEndThatIsExactlyAtTheDepthCounts) {
  std::string text = "Go.";
  for (int i = 1; i < 100; ++i) text += " Go.";
  const Haystack haystack = make_haystack(text);
  const std::int64_t n = n_tokens(text);
  ASSERT_EQ(haystack.sentence_ends.size(), 100U);
  int n_narrow = 0;  // where a share in doubles would miss the sentence end
  for (std::size_t place = 1; place < 100; ++place) {
    const std::int64_t before = n_tokens(text.substr(0, haystack.sentence_ends[place - 1]));
    ASSERT_EQ(100 * before, static_cast<std::int64_t>(place) * n) << "every sentence is as long";
    const auto depth = static_cast<double>(place);
    EXPECT_EQ(needle_place(haystack, depth, *tokenizer_), place) << depth << " % of " << n;
    if (depth / 100 * static_cast<double>(n) < static_cast<double>(before)) ++n_narrow;
  }
  EXPECT_GT(n_narrow, 0);
}

TEST_F(NeedlePrompts, WhatStandsInForAPlaceholderIsTakenAsItIs) {
  EXPECT_EQ(filled("{key}: {value}, {key}", {"{value}", "{key}"}), "{value}: {key}, {value}");
  EXPECT_EQ(filled("{ke{key}y} {}", {"a", "b"}), "{keay} {}");
}

TEST_F(NeedlePrompts, DistractorsStandAtOtherSentenceEnds) {
  NeedleCase about = one_needle();
  about.distractors = {{"Lima", "7654321"}, {"Cairo", "1111111"}, {"Quito", "2222222"}};
  about.places = {0.5, 0.5, 0.99};
  const NeedlePrompt prompt = needle_prompt(about, 256, 50, *tokenizer_);
  for (const char* sentence :
       {"Oslo is: 1234567.", "Lima is: 7654321.", "Cairo is: 1111111.", "Quito is: 2222222."})
    EXPECT_EQ(count(prompt.text, sentence), 1U) << sentence;
  EXPECT_EQ(prompt.text.find(". The number for Oslo is: 1234567. The number"), std::string::npos);
  EXPECT_EQ(prompt.text.find(". The number for Lima is: 7654321. The number"), std::string::npos);
}

TEST_F(NeedlePrompts, WhatCannotFitIsRefused) {
  EXPECT_THROW(needle_prompt(one_needle(), 12, 50, *tokenizer_), UsageError);
}

TEST(Haystack, IsCutAfterWordsAndClosed) {
  const Haystack haystack = make_haystack("One two, three. \"Four five!\" Six");
  EXPECT_EQ(haystack.word_ends.size(), 6U);
  EXPECT_EQ(haystack.sentence_ends.size(), 2U);
  EXPECT_EQ(haystack.first_words(2).text, "One two.");
  EXPECT_EQ(haystack.first_words(3).text, "One two, three.");
  EXPECT_EQ(haystack.first_words(5).text, "One two, three. \"Four five!\"");
  EXPECT_EQ(haystack.first_words(6).text, "One two, three. \"Four five!\" Six.");
  EXPECT_EQ(haystack.first_words(6).sentence_ends.size(), 3U);
  EXPECT_EQ(haystack.first_words(0).text, "");
}

TEST(Haystack, AGeneratedOneHasNoDigitAndBeginsAsLongerOnesDo) {
  const std::string text = generated_text(20'000, 3);
  EXPECT_EQ(text.find_first_of("0123456789:"), std::string::npos);
  EXPECT_THAT(generated_text(40'000, 3), StartsWith(text));
  EXPECT_NE(generated_text(20'000, 4), text);
  EXPECT_GT(make_haystack(text).sentence_ends.size(), 200U);
}

TEST(Haystack, AFileIsTurnedToASentenceAndBegunAgain) {
  const Haystack source = make_haystack("One is here. Two is there. Three is gone.");
  const std::string turned = turned_text(source, 200, 1);
  EXPECT_GE(turned.size(), 200U);
  EXPECT_THAT(turned, HasSubstr("Three is gone.\n\nOne is here."));
}

}  // namespace

}  // namespace keyscope::evaluation
