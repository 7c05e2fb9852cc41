#include "app/evaluation/phonebook.hpp"

#include <gtest/gtest.h>

#include "tests/app/evaluation/demo_evaluation.hpp"

namespace keyscope::evaluation {
namespace {

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
