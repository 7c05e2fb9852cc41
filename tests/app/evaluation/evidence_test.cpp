#include "app/evaluation/evidence.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/evaluation/niah.hpp"
#include "app/evaluation/phonebook.hpp"
#include "app/evaluation/ruler.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class EvidenceOf : public ::testing::Test {
 protected:
  EvidenceFinder finder(const std::string& prompt) {
    ids_ = tokenizer_->encode(prompt, true);
    return {*tokenizer_, ids_};
  }
  std::string text(const TokenRange& range) const { return text(ids_, range); }
  std::string text(const std::vector<std::int32_t>& ids, const TokenRange& range) const {
    return tokenizer_->decode(std::span(ids).subspan(range.first, range.size()));
  }
  std::vector<std::string> places(const Evidence& evidence) const {
    std::vector<std::string> texts;
    for (const TokenRange& place : evidence.places) texts.push_back(text(place));
    return texts;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::Tokenizer::load(kDemoModel);
  std::vector<std::int32_t> ids_;
};

TEST_F(EvidenceOf, TextsStandBeforeTheQuestion) {
  const std::vector<std::string> needle{"\nThe key is blue. "};
  const Evidence evidence = finder("It was late. The key is blue. Nobody came.\nAnswer: The key is")
                                .of_texts(needle, {}, "\nAnswer:");
  ASSERT_EQ(evidence.places.size(), 1U);
  EXPECT_THAT(text(evidence.places[0]), HasSubstr("The key is blue."));
  EXPECT_THAT(text(evidence.places[0]), Not(HasSubstr("Nobody")));
  ASSERT_TRUE(evidence.question);
  EXPECT_EQ(evidence.question->end, std::ssize(ids_));
  EXPECT_THAT(text(*evidence.question), HasSubstr("Answer: The key is"));
  EXPECT_THAT(text(*evidence.question), Not(HasSubstr("came")));
}

TEST_F(EvidenceOf, ATextThatIsNotThereLeavesItUnknown) {
  const std::vector<std::string> texts{"The key is blue.", "It is red."};
  const Evidence evidence = finder("The key is blue. What is it?").of_texts(texts, {}, "What is");
  EXPECT_THAT(evidence.places, IsEmpty());
  EXPECT_TRUE(evidence.question);
  // Only behind the question.
  EXPECT_THAT(finder("What is it? The key is blue.").of_texts({texts.data(), 1}, {}, "What is").places,
              IsEmpty());
}

TEST_F(EvidenceOf, AnswersStandInSentencesAsWholeWords) {
  const std::vector<std::string> answers{"1234"};
  const std::string prompt =
      "The old number is 51234. The number of Lima is 1234. It cost 12.34 or so!\nWhat is the number? 1234";
  const Evidence evidence = finder(prompt).of_answers(answers, WantedAnswers::kAll, "What is the number");
  ASSERT_EQ(evidence.places.size(), 1U);
  EXPECT_THAT(places(evidence), ElementsAre(HasSubstr("The number of Lima is 1234.")));
  EXPECT_THAT(places(evidence), ElementsAre(Not(HasSubstr("old"))));
  EXPECT_THAT(places(evidence), ElementsAre(Not(HasSubstr("cost"))));
  ASSERT_EQ(evidence.answers.size(), 1U);
  EXPECT_THAT(text(evidence.answers[0]), HasSubstr("1234"));
  EXPECT_THAT(text(evidence.answers[0]), Not(HasSubstr("Lima")));
}

TEST_F(EvidenceOf, AnAnswerMayEndItsSentence) {
  const std::vector<std::string> answers{"Washington D.C."};
  const Evidence evidence = finder("He lives in Washington D.C. The cat sleeps.\nWhere?")
                                .of_answers(answers, WantedAnswers::kAll, "Where?");
  EXPECT_THAT(places(evidence), ElementsAre(HasSubstr("Washington D.C.")));
  EXPECT_THAT(places(evidence), ElementsAre(Not(HasSubstr("cat"))));
}

// What stands on a whole list has no place, however short the list is.
TEST_F(EvidenceOf, ListsOfWordsHaveNone) {
  RulerOptions ruler;
  ruler.tasks = {"cwe"};
  ruler.lengths = {2048};
  ruler.samples = 1;
  const auto examples = ruler_examples(ruler, *demo_model()).examples;
  ASSERT_EQ(examples.size(), 1U);
  EXPECT_THAT(examples[0].evidence.places, IsEmpty());
  EXPECT_TRUE(examples[0].evidence.question);
}

TEST_F(EvidenceOf, ALineIsASentence) {
  const std::vector<std::string> answers{"4821"};
  const Evidence evidence = finder("Anna: 1111\nBoris: 4821\nClara: 3333\n\nLook up:\nBoris:")
                                .of_answers(answers, WantedAnswers::kAll, "Look up:");
  EXPECT_THAT(places(evidence), ElementsAre(HasSubstr("Boris: 4821")));
  EXPECT_THAT(places(evidence), ElementsAre(Not(HasSubstr("Clara"))));
}

TEST_F(EvidenceOf, AllAnswersAreNeededOrAny) {
  const std::string prompt = "Oslo is cold. Lima is warm.\nWhich?";
  const std::vector<std::string> answers{"Oslo", "Quito"};
  EXPECT_THAT(finder(prompt).of_answers(answers, WantedAnswers::kAll, "Which?").places, IsEmpty());
  EXPECT_THAT(places(finder(prompt).of_answers(answers, WantedAnswers::kAny, "Which?")),
              ElementsAre(HasSubstr("Oslo is cold.")));
}

TEST_F(EvidenceOf, WhatStandsEverywhereIsNoEvidence) {
  std::string prompt;
  for (std::size_t i = 0; i <= kMostPlaces; ++i) prompt += "Lima is warm. ";
  const std::vector<std::string> answers{"Lima"};
  EXPECT_THAT(finder(prompt + "Which?").of_answers(answers, WantedAnswers::kAny, "Which?").places, IsEmpty());
}

TEST_F(EvidenceOf, AnEmptyPromptHasNone) {
  ids_.clear();
  const EvidenceFinder nothing(*tokenizer_, ids_);
  const std::vector<std::string> answers{"Lima"};
  EXPECT_EQ(nothing.of_answers(answers, WantedAnswers::kAny, "Which?"), Evidence());
  EXPECT_EQ(nothing.of_texts(answers, answers, ""), Evidence());
}

TEST(EvidencePositions, AreThoseOfPlacesAndQuestionOnce) {
  const Evidence evidence{{{2, 4}, {7, 8}}, {{7, 8}}, TokenRange{3, 6}};
  EXPECT_THAT(evidence.positions(), ElementsAre(2, 3, 4, 5, 7));
}

// Of every task that knows what its answers stand on: the place holds the answer, and the question is last.
TEST_F(EvidenceOf, TasksSayWhereTheirAnswersStand) {
  const auto& model = demo_model()->config();
  NiahTask niah;
  niah.lengths = {160, 256};
  niah.depths = {0, 50, 100};
  niah.n_distractors = 2;
  PhonebookTask book;
  book.entries = {3, 8};
  RulerOptions ruler;
  ruler.tasks = {"niah_single_1", "niah_single_2", "niah_multivalue", "vt"};
  ruler.lengths = {1024};
  ruler.samples = 2;
  ruler.needles.paraphrased = true;
  auto examples = niah_examples(niah, 3, model, *tokenizer_).examples;
  for (auto& example : phonebook_examples(book, 3, model, *tokenizer_).examples) examples.push_back(example);
  for (auto& example : ruler_examples(ruler, *demo_model()).examples) examples.push_back(example);
  for (const Example& example : examples) {
    ASSERT_FALSE(example.evidence.places.empty()) << example.id;
    std::string found;
    std::int64_t n_tokens = 0;
    for (const TokenRange& place : example.evidence.places) {
      found += text(example.prompt_ids, place);
      n_tokens += place.size();
    }
    for (const std::string& answer : example.answers) EXPECT_THAT(found, HasSubstr(answer)) << example.id;
    EXPECT_GE(example.evidence.answers.size(), example.answers.size()) << example.id;
    EXPECT_LT(n_tokens, std::ssize(example.prompt_ids) / 2) << example.id;
    ASSERT_TRUE(example.evidence.question) << example.id;
    EXPECT_GE(example.evidence.question->first, example.evidence.places.back().end - 1) << example.id;
    EXPECT_EQ(example.evidence.question->end, std::ssize(example.prompt_ids)) << example.id;
  }
}

}  // namespace
}  // namespace keyscope::evaluation
