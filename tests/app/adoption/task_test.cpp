#include "app/adoption/task.hpp"

#include <gtest/gtest.h>

#include "analysis/errors.hpp"
#include "app/adoption/diagnosis.hpp"

namespace keyscope::adoption {
namespace {

Task made_task(const std::string& name, int n) {
  Task task;
  task.name = name;
  task.metric = task.score = "recall";
  for (int i = 0; i < n; ++i) {
    evaluation::Example example;
    example.id = std::to_string(i);
    example.prompt_ids = {i, static_cast<std::int32_t>(name.size())};
    task.examples.push_back(std::move(example));
  }
  return task;
}

// Two examples under `none` and one candidate.
TEST(Task, PairsExamplesUnderEachGridPoint) {
  std::vector<evaluation::ExampleResult> results(4);
  const std::array scores{1.0, 0.0, 0.5, 1.0};
  for (std::size_t i = 0; i < results.size(); ++i) results[i].scores = {{"recall", scores[i]}};
  const TaskResult found = task_result(made_task("t", 2), results, 1, {});
  EXPECT_DOUBLE_EQ(found.outcome.full.mean, 0.75);
  EXPECT_DOUBLE_EQ(found.outcome.scores[0].mean, 0.5);
  EXPECT_DOUBLE_EQ(found.losses[0].loss.mean, 0.25);
  EXPECT_EQ(found.outcome.n_tokens, 4);
  EXPECT_THROW(task_result(made_task("t", 3), results, 1, {}), InvalidInput);
}

// Three rows of one data set and one of another, of which the full cache answers the first's.
TEST(Task, DataSetsWeighTheSame) {
  Task task = made_task("t", 4);
  task.data_sets = {"qasper", "trec", "qasper", "qasper"};
  std::vector<evaluation::ExampleResult> results(8);
  const std::array full{1.0, 0.0, 1.0, 1.0}, kept{0.0, 0.5, 0.0, 1.0};
  for (std::size_t i = 0; i < full.size(); ++i) {
    results[2 * i].scores = {{"recall", full[i]}};
    results[2 * i + 1].scores = {{"recall", kept[i]}};
  }
  const TaskResult found = task_result(task, results, 1, {});
  EXPECT_DOUBLE_EQ(found.outcome.full.mean, 0.5);
  EXPECT_DOUBLE_EQ(found.outcome.scores[0].mean, (1.0 / 3 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(found.losses[0].loss.mean, (2.0 / 3 - 0.5) / 2);
  EXPECT_EQ(found.outcome.full.n_samples, 4);
}

// Blocks of 4, budgets of 5: something is missing from the cache behind token 8.
TEST(Task, SaysHowMuchOfATextComesAfterAnEviction) {
  Task task = made_task("text", 2);
  task.kind = TaskKind::kLikelihood;
  task.examples[0].prompt_ids.assign(12, 1);  // tokens 9 to 11 of 11
  task.examples[1].prompt_ids.assign(9, 1);   // none of 8
  std::vector<evaluation::ExampleResult> results(4);
  for (auto& result : results) {
    result.budget = 5;
    result.block = 4;
    result.scores = {{"recall", 1}};
  }
  EXPECT_DOUBLE_EQ(task_result(task, results, 1, {}).losses[0].after_eviction, 3.0 / 19);
  task.examples[0].score_from = 10;
  EXPECT_DOUBLE_EQ(task_result(task, results, 1, {}).losses[0].after_eviction, 2.0 / 10);
  for (auto& result : results) result.budget = 8;
  EXPECT_EQ(task_result(task, results, 1, {}).losses[0].after_eviction, 0);
}

TEST(Task, SaysHowManyPromptsAndAnswersExceedTheBudget) {
  Task task = made_task("t", 2);  // prompts of two tokens
  task.examples[0].continuation.max_new_tokens = 4;
  task.examples[1].continuation.max_new_tokens = 1;
  std::vector<evaluation::ExampleResult> results(4);
  for (auto& result : results) {
    result.budget = 3;
    result.scores = {{"recall", 1}};
  }
  EXPECT_DOUBLE_EQ(task_result(task, results, 1, {}).losses[0].after_eviction, 0.5);
}

TEST(Task, PromptsAreChosenEvenlyFromAll) {
  const std::array tasks{made_task("a", 10), made_task("bb", 1), made_task("ccc", 10)};
  const auto chosen = choose_prompts(tasks, 7);
  std::vector<std::string> names;
  names.reserve(chosen.size());
  for (const auto& prompt : chosen) names.push_back(prompt.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a/1", "a/5", "a/8", "bb/0", "ccc/1", "ccc/5", "ccc/8"}));
}

TEST(Task, NoPromptIsChosenTwice) {
  const std::array tasks{made_task("aa", 3), made_task("bb", 3)};
  EXPECT_EQ(choose_prompts(tasks, 6).size(), 3U);
}

}  // namespace
}  // namespace keyscope::adoption
