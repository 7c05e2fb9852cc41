// Texts and where they stop, on a tokenizer.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/inference/completion.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

class Continuations : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = Model::load(KEYSCOPE_DEMO_MODEL, {});
    const auto text = read_file(std::string(KEYSCOPE_DEMO_MODEL) + "/prompts/phonebook.txt");
    ids_ = model_->tokenizer()->encode(text, true);
    const auto table = parse_json(read_file(std::string(KEYSCOPE_DEMO_MODEL) + "/prompts/prompts.json"));
    for (const auto& prompt : table)
      if (prompt["file"] == "phonebook.txt") answer_.append(prompt["expected"]);
    ASSERT_EQ(answer_.size(), 5U);
  }

  // The answer up to where `text` first stands in it.
  std::string up_to(const std::string& text) const { return answer_.substr(0, answer_.find(text)); }

  Completion complete(const Continuation& continuation) const {
    Completion result;
    CaptureControl control;
    const std::vector<CompletionRequest> requests{
        {.prompt_ids = ids_, .policy = analysis::parse_policy("none"), .continuation = continuation}};
    complete_prompts(*model_, {64, 0}, requests,
                     {control, [&](std::size_t, Completion completion) { result = std::move(completion); }});
    return result;
  }

  std::shared_ptr<const Model> model_;
  std::vector<std::int32_t> ids_;
  std::string answer_ = " ";  // and four digits, a token each
};

TEST_F(Continuations, TheTextIsWhatTheIdsAdd) {
  const auto completion = complete({.max_new_tokens = 6});
  EXPECT_EQ(completion.text, answer_ + "\n");
  EXPECT_EQ(completion.end, CompletionEnd::kMaxNewTokens);
  EXPECT_EQ(completion.n_prompt, static_cast<std::int64_t>(ids_.size()));
}

TEST_F(Continuations, AStopTextEndsItAndIsNoPartOfIt) {
  const auto at_line = complete({.max_new_tokens = 50, .stop_texts = {"\n"}});
  EXPECT_EQ(at_line.text, answer_);
  EXPECT_EQ(at_line.end, CompletionEnd::kStopText);
  EXPECT_EQ(at_line.generated, complete({.max_new_tokens = 6}).generated);
  // The digits are tokens of their own: this one is written by two.
  const std::string last_two = answer_.substr(3);
  EXPECT_EQ(complete({.max_new_tokens = 50, .stop_texts = {last_two}}).text, up_to(last_two));
  // The one that begins first counts.
  const std::string last_three = answer_.substr(2), middle_two = answer_.substr(2, 2);
  EXPECT_EQ(complete({.max_new_tokens = 50, .stop_texts = {last_three, middle_two}}).text, up_to(middle_two));
}

// The answer begins with a space here, as others do with a new line.
TEST_F(Continuations, AStopTextBeforeAnyWordsDoesNotEndItIfItShallNot) {
  EXPECT_EQ(complete({.max_new_tokens = 50, .stop_texts = {" "}}).text, "");
  const auto after_words =
      complete({.max_new_tokens = 50, .stop_texts = {" ", "\n"}, .stop_after_words = true});
  EXPECT_EQ(after_words.text, answer_);
  EXPECT_EQ(after_words.end, CompletionEnd::kStopText);
  const std::string first = answer_.substr(1, 1);
  EXPECT_EQ(complete({.max_new_tokens = 50, .stop_texts = {first}, .stop_after_words = true}).text, " ");
}

TEST_F(Continuations, AnEndIdEndsItAndIsNoPartOfTheText) {
  const auto free = complete({.max_new_tokens = 6});  // a token for every character
  ASSERT_EQ(free.generated.size(), 6U);
  const std::int32_t digit = free.generated[3], line = free.generated[5];
  const std::string before = up_to(answer_.substr(3, 1));
  for (const bool ignore_eos : {false, true}) {
    const auto ended = complete({.max_new_tokens = 6, .ignore_eos = ignore_eos, .end_ids = {line, digit}});
    EXPECT_EQ(ended.text, before);
    EXPECT_EQ(ended.end, CompletionEnd::kEndOfSequence);
    EXPECT_EQ(ended.generated,
              std::vector(free.generated.begin(), free.generated.begin() + std::ssize(before) + 1));
  }
}

TEST_F(Continuations, AnEndIdOnTheLastTokenEndsItToo) {
  const auto free = complete({.max_new_tokens = 6});
  const auto ended = complete({.max_new_tokens = 6, .end_ids = {free.generated[5]}});
  EXPECT_EQ(ended.text, answer_);
  EXPECT_EQ(ended.end, CompletionEnd::kEndOfSequence);
}

TEST_F(Continuations, IsEmptyWhereItsFirstIdEndsItUnlessItMustNotBe) {
  const auto free = complete({.max_new_tokens = 6});
  const std::int32_t first = free.generated.front();
  const auto empty = complete({.max_new_tokens = 6, .end_ids = {first}});
  EXPECT_EQ(empty.text, "");
  EXPECT_EQ(empty.generated, std::vector{first});
  const auto begun = complete({.max_new_tokens = 6, .end_ids = {first}, .never_empty = true});
  EXPECT_NE(begun.generated.front(), first);
  EXPECT_NE(begun.text, "");
}

// What would not have been chosen anyway makes no difference, and later ids may end the text.
TEST_F(Continuations, OnlyTheFirstIdMayNotEndIt) {
  const auto free = complete({.max_new_tokens = 6});
  const auto ended = complete({.max_new_tokens = 6, .end_ids = {free.generated[1]}, .never_empty = true});
  EXPECT_EQ(ended.generated, std::vector(free.generated.begin(), free.generated.begin() + 2));
  EXPECT_EQ(ended.text, " ");
  EXPECT_EQ(ended.end, CompletionEnd::kEndOfSequence);
}

// Also where ids are drawn: nearly all of them would end it here.
TEST_F(Continuations, AFirstIdThatIsDrawnDoesNotEndItEither) {
  const std::int32_t first = complete({.max_new_tokens = 1}).generated.front();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto drawn = complete({.max_new_tokens = 1,
                                 .sampling = {.temperature = 1, .top_p = 1, .seed = seed},
                                 .end_ids = {first},
                                 .never_empty = true});
    EXPECT_NE(drawn.generated.front(), first) << seed;
  }
}

// The model's own ids that end a text, of which a configuration may name one that is not in the vocabulary.
TEST(EndOfSequence, IsNotChosenFirstWhereATextMustNotBeEmpty) {
  test::RandomModel folder;
  const auto ids = test::random_ids(20, 50);
  const auto complete = [&](const Continuation& continuation) {
    const auto model = Model::load(folder.save(), {});
    Completion result;
    CaptureControl control;
    const std::vector<CompletionRequest> requests{
        {.prompt_ids = ids, .policy = analysis::parse_policy("none"), .continuation = continuation}};
    complete_prompts(*model, {8, 0}, requests,
                     {control, [&](std::size_t, Completion completion) { result = std::move(completion); }});
    return result.generated;
  };
  const std::int32_t first = complete({.max_new_tokens = 1, .ignore_eos = true}).front();
  folder.config["eos_token_id"] = {first, 1000};
  EXPECT_EQ(complete({.max_new_tokens = 4}), std::vector{first});
  EXPECT_NE(complete({.max_new_tokens = 4, .never_empty = true}).front(), first);
  EXPECT_EQ(complete({.max_new_tokens = 4, .ignore_eos = true, .never_empty = true}).front(), first);
}

TEST_F(Continuations, NothingIsGeneratedWhereNothingIsAskedFor) {
  const auto completion = complete({.max_new_tokens = 0});
  EXPECT_EQ(completion.text, "");
  EXPECT_TRUE(completion.generated.empty());
}

}  // namespace
}  // namespace keyscope::capture
