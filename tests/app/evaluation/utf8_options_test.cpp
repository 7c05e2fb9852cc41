// Options and files that hold text are refused where they are no UTF-8.

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/evaluation/math500.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/perplexity.hpp"
#include "app/evaluation/phonebook.hpp"
#include "base/errors.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::HasSubstr;

const std::string kLatin1 = "caf\xE9 {key} {value} {problem}";

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Utf8Option, IsAskedOfNeedles) {
  const auto refused = [](std::string NiahTask::*option) {
    NiahTask task;
    task.lengths = {200};
    task.depths = {50};
    task.*option = kLatin1;
    return refusal([&] { task.check(); });
  };
  EXPECT_THAT(refused(&NiahTask::needle), HasSubstr("--needle: "));
  EXPECT_THAT(refused(&NiahTask::question), HasSubstr("--question: "));
  EXPECT_THAT(refused(&NiahTask::haystack_path), HasSubstr("--haystack: "));
  EXPECT_THAT(refused(&NiahTask::keys_path), HasSubstr("--keys: "));
}

TEST(Utf8Option, IsAskedOfPhoneBooks) {
  const auto refused = [](std::string PhonebookTask::*option) {
    PhonebookTask task;
    task.entries = {4};
    task.*option = kLatin1;
    return refusal([&] { phonebook_examples(task, 0, demo_model()->config(), *demo_model()->tokenizer()); });
  };
  EXPECT_THAT(refused(&PhonebookTask::question), HasSubstr("--question: "));
  EXPECT_THAT(refused(&PhonebookTask::names_path), HasSubstr("--names: "));
}

TEST(Utf8Option, IsAskedOfTextsAndPrompts) {
  PerplexityOptions texts;
  texts.length = 64;
  texts.texts = {kLatin1};
  EXPECT_THAT(refusal([&] { read_texts(texts, *demo_model()); }), HasSubstr("--text: "));
  MathOptions math;
  math.prompt = kLatin1;
  EXPECT_THAT(refusal([&] { read_math(math, *demo_model()); }), HasSubstr("--prompt: "));
}

}  // namespace

}  // namespace keyscope::evaluation
