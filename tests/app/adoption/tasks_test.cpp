#include "app/adoption/tasks.hpp"

#include <gtest/gtest.h>

#include "app/adoption/measurement.hpp"
#include "base/errors.hpp"

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

// Each example under `none` and one candidate, whose cache holds less after every prompt.
std::vector<evaluation::ExampleResult> made_results(std::size_t n_examples, std::int64_t budget = 0) {
  std::vector<evaluation::ExampleResult> results(2 * n_examples);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].budget = budget;
    results[i].block = 1;
    results[i].rows_kept = i % 2 == 0 ? 2 : 1;
    results[i].n_generated = 2;
    results[i].scores = {{"recall", 1}};
  }
  return results;
}

// Two examples under `none` and one candidate.
TEST(Task, PairsExamplesUnderEachGridPoint) {
  auto results = made_results(2);
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
  auto results = made_results(4);
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
  auto results = made_results(2, 5);
  for (auto& result : results) result.block = 4;
  const TaskLoss loss = task_result(task, results, 1, {}).losses[0];
  EXPECT_DOUBLE_EQ(loss.after_eviction, 3.0 / 19);
  EXPECT_EQ(loss.n_affected, 3);
  EXPECT_EQ(loss.n_scored, 19);
  task.examples[0].score_from = 10;
  EXPECT_DOUBLE_EQ(task_result(task, results, 1, {}).losses[0].after_eviction, 2.0 / 10);
  for (auto& result : results) result.budget = 8;
  EXPECT_EQ(task_result(task, results, 1, {}).losses[0].after_eviction, 0);
}

// The loss of 3 of 12 tokens shows in the mean of all as a quarter of itself.
TEST(Task, ATextsLossIsPerAffectedToken) {
  Task task = made_task("text", 3);
  task.kind = TaskKind::kLikelihood;
  task.examples[0].prompt_ids.assign(13, 1);  // tokens 10 to 12 of 12
  task.examples[1].prompt_ids.assign(13, 1);
  task.examples[2].prompt_ids.assign(9, 1);  // none
  auto results = made_results(3, 8);
  for (auto& result : results) result.block = 9;
  results[1].scores = {{"recall", 1.25}};
  results[3].scores = {{"recall", 1.5}};
  const TaskResult found = task_result(task, results, 1, {});
  EXPECT_DOUBLE_EQ(found.losses[0].loss.mean, (4 * 0.25 + 4 * 0.5) / 2);
  EXPECT_EQ(found.losses[0].loss.n_samples, 2);
  EXPECT_DOUBLE_EQ(found.losses[0].overall.mean, 0.25);
  EXPECT_EQ(found.losses[0].overall.n_samples, 3);
  EXPECT_DOUBLE_EQ(found.outcome.scores[0].mean, 1.25);  // of all
}

// Prompts of two tokens and a budget of three: the fourth token of the cache evicts one, so that the answer's
// fourth is the first that misses it.
TEST(Task, WhatIsGeneratedCountsAsFarAsItWasGenerated) {
  Task task = made_task("t", 2);
  for (evaluation::Example& example : task.examples) example.continuation.max_new_tokens = 100;
  auto results = made_results(2, 3);
  results[1].n_generated = 4;
  results[3].n_generated = 3;
  results[1].scores = {{"recall", 0.5}};
  const TaskLoss loss = task_result(task, results, 1, {}).losses[0];
  EXPECT_EQ(loss.n_affected, 1);
  EXPECT_DOUBLE_EQ(loss.after_eviction, 0.5);
  EXPECT_DOUBLE_EQ(loss.loss.mean, 0.5);
  EXPECT_DOUBLE_EQ(loss.overall.mean, 0.25);
}

// Evicted after the prompt's only block, which the first token of the answer is told by.
TEST(Task, OneTokenAfterAPromptOfOneBlockMissesNothing) {
  const Task task = made_task("t", 2);
  auto results = made_results(2, 1);
  for (auto& result : results) result.block = 128;
  results[1].n_generated = 1;
  EXPECT_EQ(task_result(task, results, 1, {}).losses[0].n_affected, 1);
}

// A layer with a sliding window shorter than the budget keeps all that it had.
TEST(Task, WhatKeepsAsManyRowsEvictsNothing) {
  const Task task = made_task("t", 2);
  auto results = made_results(2, 1);
  results[1].rows_kept = results[0].rows_kept;
  EXPECT_EQ(task_result(task, results, 1, {}).losses[0].n_affected, 1);
  results[3].rows_kept = results[2].rows_kept;
  const TaskLoss none = task_result(task, results, 1, {}).losses[0];
  EXPECT_EQ(none.after_eviction, 0);
  EXPECT_EQ(none.loss.n_samples, 0);
  EXPECT_EQ(none.overall.mean, 0);
}

// The second example alone is affected, and the full cache does not solve that one.
TEST(Task, SaysHowTheFullCacheDoesWhereSomethingWasEvicted) {
  const Task task = made_task("t", 3);
  auto results = made_results(3, 1);
  results[0].rows_kept = results[1].rows_kept;
  results[2].scores = results[4].scores = {{"recall", 0}};
  const TaskResult found = task_result(task, results, 1, {});
  EXPECT_EQ(found.losses[0].full.mean, 0);
  EXPECT_EQ(found.losses[0].full.high, 0);
  EXPECT_DOUBLE_EQ(found.outcome.full.mean, 1.0 / 3);
}

TEST(Task, PromptsAreChosenEvenlyFromAll) {
  const std::array tasks{made_task("a", 10), made_task("bb", 1), made_task("ccc", 10)};
  const auto chosen = choose_prompts(tasks, {.most = 7});
  std::vector<std::string> names;
  names.reserve(chosen.size());
  for (const auto& prompt : chosen) names.push_back(prompt.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a/1", "a/5", "a/8", "bb/0", "ccc/1", "ccc/5", "ccc/8"}));
}

TEST(Task, NoPromptIsChosenTwice) {
  const std::array tasks{made_task("aa", 3), made_task("bb", 3)};
  EXPECT_EQ(choose_prompts(tasks, {.most = 6}).size(), 3U);
}

}  // namespace
}  // namespace keyscope::adoption
