#include "app/evaluation/niah.hpp"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/evaluation/phonebook.hpp"
#include "base/errors.hpp"
#include "capture/model/config.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {

namespace {

TEST(LookupScores, RecallFindsTheAnswerAnywhere) {
  EXPECT_EQ(lookup_recall(" 1234567.\nThe", "1234567"), 1);
  EXPECT_EQ(lookup_recall("It is 1234567, I think", "1234567"), 1);
  EXPECT_EQ(lookup_recall(" 12345678888", "1234567"), 1);
  EXPECT_EQ(lookup_recall("1234 567", "1234567"), 0);
  EXPECT_EQ(lookup_recall("anything", "the"), 1) << "an answer without words";
  EXPECT_EQ(lookup_recall("", "1234567"), 0);
  EXPECT_EQ(lookup_recall("Eat a Sandwich, in the park.", "eat sandwich in park"), 1);
}

TEST(LookupScores, RecallIsElseTheShareOfWords) {
  EXPECT_EQ(lookup_recall("park, then sandwich", "eat sandwich in park"), 0.5);
  EXPECT_EQ(lookup_recall("nothing", "eat sandwich in park"), 0);
}

TEST(LookupScores, ExactLooksAtTheBeginningOfTheFirstLine) {
  EXPECT_EQ(lookup_exact(" 1234567.", "1234567"), 1);
  EXPECT_EQ(lookup_exact("\n1234567 and more\n", "1234567"), 1);
  EXPECT_EQ(lookup_exact("It is 1234567", "1234567"), 0);
  EXPECT_EQ(lookup_exact("7\n1234567", "1234567"), 0);
  EXPECT_EQ(lookup_exact("", "1234567"), 0);
}

}  // namespace

// Which needle is hidden in which prompt.

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class Niah : public ::testing::Test {
 protected:
  std::vector<Example> examples(const NiahTask& task) const {
    return niah_examples(task, 7, config_, *tokenizer_).examples;
  }
  static NiahTask grid() {
    NiahTask task;
    task.lengths = {200, 400};
    task.depths = {0, 40, 100};
    task.n_samples = 2;
    task.n_distractors = 3;
    return task;
  }
  std::string text_of(const Example& example) const { return tokenizer_->decode(example.prompt_ids); }

  capture::ModelConfig config_ = capture::read_config(KEYSCOPE_DEMO_MODEL);
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::Tokenizer::load(KEYSCOPE_DEMO_MODEL);
};

// Intervals take examples as draws by themselves: one key that a model reads badly may spoil one of them.
TEST_F(Niah, EveryPromptHidesANeedleOfItsOwn) {
  std::set<std::string> values;
  for (const Example& example : examples(grid())) {
    const std::string value = example.answers.at(0);
    EXPECT_TRUE(values.insert(value).second) << example.id;
    EXPECT_THAT(text_of(example),
                HasSubstr(example.about.at("key").get<std::string>() + " is: " + value + "."));
  }
  EXPECT_EQ(values.size(), 12U);
}

TEST_F(Niah, TheKeyThatIsAskedForStandsInThePromptOnce) {
  for (const Example& example : examples(grid())) {
    const std::string text = text_of(example),
                      needle = "number for " + example.about.at("key").get<std::string>();
    const std::size_t first = text.find(needle + " is: ");
    ASSERT_NE(first, std::string::npos);
    const std::string rest = text.substr(first + needle.size());
    ASSERT_THAT(rest, HasSubstr(needle)) << "the question";
    EXPECT_THAT(rest.substr(rest.find(needle) + needle.size()), Not(HasSubstr(needle))) << example.id;
  }
}

TEST_F(Niah, APromptDoesNotDependOnWhichOthersThereAre) {
  const std::vector<Example> all = examples(grid());
  NiahTask one = grid();
  one.lengths = {400};
  one.depths = {40};
  for (const Example& example : examples(one)) {
    const auto same = std::ranges::find(all, example.id, &Example::id);
    ASSERT_NE(same, all.end());
    EXPECT_EQ(same->answers, example.answers);
    EXPECT_EQ(same->prompt_ids, example.prompt_ids);
  }
}

// What is run once for several prompts is what they begin with.
TEST_F(Niah, DepthsOfOneLengthBeginAlike) {
  const std::vector<Example> all = examples(grid());
  const Example &early = all.at(1), &late = all.at(2);
  ASSERT_EQ(early.group, late.group);
  const auto parts = std::ranges::mismatch(early.prompt_ids, late.prompt_ids).in1 - early.prompt_ids.begin();
  EXPECT_GE(parts, early.about.at("needle_token").get<std::int64_t>());
}

// An answer that is a distractor's too would be right for the wrong reason.
TEST_F(Niah, NoTwoNeedlesOfAPromptHaveTheSameValue) {
  NiahTask task = grid();
  task.lengths = {400};
  task.n_digits = 1;
  task.n_distractors = 9;
  for (const Example& example : examples(task)) {
    const std::string text = text_of(example);
    std::set<char> values;
    for (std::size_t at = text.find(" is: "); at != std::string::npos; at = text.find(" is: ", at + 1))
      EXPECT_TRUE(values.insert(text.at(at + 5)).second) << text;
    EXPECT_EQ(values.size(), 10U);
  }
  task.n_distractors = 10;
  EXPECT_THAT([&] { task.check(); }, ThrowsMessage<UsageError>(HasSubstr("--values 1: there are 10 values")));
  task.n_digits = 2;
  EXPECT_NO_THROW(task.check());
}

TEST_F(Niah, ALengthLeavesRoomForTheAnswer) {
  NiahTask task = grid();
  task.lengths = {config_.context_length};
  task.depths = {50};
  task.n_samples = 1;
  const auto refused = [&] { examples(task); };
  EXPECT_THAT(refused, ThrowsMessage<UsageError>(HasSubstr("--length 8192: 15 tokens of an answer follow")));
  EXPECT_THAT(refused, ThrowsMessage<UsageError>(HasSubstr("expected at most 8177")));
  task.lengths = {8177};
  EXPECT_NO_THROW(examples(task));
  task.lengths = {config_.context_length};
  task.max_new_tokens = 1;
  EXPECT_NO_THROW(examples(task));
}

TEST_F(Niah, AnAnswerMayFollowANewLine) {
  for (const Example& example : examples(grid())) {
    EXPECT_EQ(example.continuation.stop_texts, std::vector<std::string>{"\n"});
    EXPECT_TRUE(example.continuation.stop_after_words);
  }
}

TEST_F(Niah, WhatIsGivenTwiceIsRefusedByName) {
  NiahTask depths = grid(), lengths = grid();
  depths.depths = {0, 40, 40};
  lengths.lengths = {200, 400, 200};
  EXPECT_THAT([&] { depths.check(); }, ThrowsMessage<UsageError>(HasSubstr("--depth: 40 is given twice")));
  EXPECT_THAT([&] { lengths.check(); }, ThrowsMessage<UsageError>(HasSubstr("--length: 200 is given twice")));
}

TEST(Phonebook, AnAnswerMayFollowANewLine) {
  PhonebookTask task;
  task.entries = {3, 5};
  const auto made = phonebook_examples(task, 1, demo_model()->config(), *demo_model()->tokenizer());
  ASSERT_EQ(made.examples.size(), 2U);
  for (const Example& example : made.examples) {
    EXPECT_EQ(example.continuation.stop_texts, std::vector<std::string>{"\n"});
    EXPECT_TRUE(example.continuation.stop_after_words);
  }
}

}  // namespace

}  // namespace keyscope::evaluation
