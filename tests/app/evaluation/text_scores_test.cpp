#include "app/evaluation/text_scores.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {

namespace {

nlohmann::json goldens(const char* section) {
  return parse_json(read_file(KEYSCOPE_EVALUATION_GOLDENS "/metric_goldens.json")).at(section);
}

TEST(AnswerScores, EqualTheReferenceImplementations) {
  const nlohmann::json pairs = goldens("pairs");
  ASSERT_GT(pairs.size(), 500U);
  for (const auto& pair : pairs) {
    const auto prediction = pair["prediction"].get<std::string>(), answer = pair["answer"].get<std::string>();
    SCOPED_TRACE("'" + prediction + "' for '" + answer + "'");
    EXPECT_NEAR(token_f1(prediction, answer), pair["token_f1"].get<double>(), 1e-12);
    EXPECT_NEAR(number_share(prediction, answer), pair["number_share"].get<double>(), 1e-12);
    EXPECT_NEAR(code_similarity(prediction, answer), pair["code_similarity"].get<double>(), 1e-12);
    EXPECT_NEAR(rouge_l(prediction, answer), pair["rouge_l"].get<double>(), 1e-12);
    if (pair["paragraph_share"].is_null())
      EXPECT_THROW(paragraph_share(prediction, answer), InvalidInput);
    else
      EXPECT_NEAR(paragraph_share(prediction, answer), pair["paragraph_share"].get<double>(), 1e-12);
  }
}

TEST(AnswerScores, SimilarityIsRoundedAtTiesAsTheReferenceRounds) {
  const nlohmann::json ties = goldens("ties");
  ASSERT_GT(ties.size(), 30U);
  for (const auto& tie : ties)
    EXPECT_EQ(edit_similarity(tie[0].get<std::string>(), tie[1].get<std::string>()), tie[2].get<int>())
        << json_text(tie);
  EXPECT_EQ(edit_similarity(std::string(17, 'x') + std::string(46, 'a'), std::string(17, 'x')), 43);
}

TEST(AnswerScores, ClassesEqualTheReference) {
  for (const auto& golden : goldens("classes")) {
    const auto classes = golden["classes"].get<std::vector<std::string>>();
    EXPECT_NEAR(
        class_share(golden["prediction"].get<std::string>(), golden["answer"].get<std::string>(), classes),
        golden["class_share"].get<double>(), 1e-12)
        << json_text(golden);
  }
}

TEST(AnswerScores, WordsAreNormalisedAsByTheReference) {
  for (const auto& golden : goldens("words")) {
    std::vector<std::u32string> expected;
    for (const auto& word : golden["words"]) expected.push_back(code_points(word.get<std::string>()));
    EXPECT_EQ(normalised_words(golden["text"].get<std::string>()), expected) << json_text(golden);
  }
}

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
