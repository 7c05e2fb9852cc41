#include "app/grid/experiment_tasks.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.hpp"

namespace keyscope::grid {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const capture::Model& demo_model() {
  static const auto model =
      capture::Model::load(KEYSCOPE_SOURCE_DIR "/assets/demo_model", {.dtype = capture::DType::kFloat32});
  return *model;
}

ExperimentTask needles() {
  ExperimentTask task;
  task.name = "needles";
  task.kind = "niah";
  task.length = 200;
  task.samples = 12;
  return task;
}

TEST(ExperimentTasks, AreMadeAsTheyAreDescribed) {
  const AskedTask asked = ask_task(needles(), {}, demo_model());
  EXPECT_THAT(asked.cannot_run, IsEmpty());
  EXPECT_EQ(asked.task.name, "needles");
  EXPECT_EQ(asked.task.score, "recall");
  EXPECT_EQ(asked.task.examples.size(), 15U) << "three haystacks of five depths";
  for (const evaluation::Example& example : asked.task.examples) EXPECT_LE(example.prompt_ids.size(), 200U);
}

TEST(ExperimentTasks, TakeOtherLengthsAndSamples) {
  ReproductionOptions options;
  options.length = 150;
  options.samples = 5;
  const AskedTask asked = ask_task(needles(), options, demo_model());
  EXPECT_EQ(asked.task.examples.size(), 5U);
  EXPECT_LE(asked.task.examples.front().prompt_ids.size(), 150U);
  EXPECT_FALSE(options.as_published());
}

TEST(ExperimentTasks, OfRulerAreOtherPromptsWithoutItsFiles) {
  ExperimentTask task = needles();
  task.kind = "ruler";
  task.length = 512;
  task.samples = 2;
  task.parts = {"niah_single_1", "niah_multikey_1"};
  const AskedTask asked = ask_task(task, {}, demo_model());
  EXPECT_THAT(asked.cannot_run, IsEmpty());
  EXPECT_THAT(asked.differs, HasSubstr("--haystack"));
  EXPECT_EQ(asked.task.data_sets, (std::vector<std::string>{"niah_single_1", "niah_single_1",
                                                            "niah_multikey_1", "niah_multikey_1"}));
  task.length = 2048;
  task.parts = {"niah_multikey_3"};
  EXPECT_THAT(ask_task(task, {}, demo_model()).differs, IsEmpty()) << "there is no essay in it";
}

TEST(ExperimentTasks, OfNeedlesHaveTheirDepthsAsParts) {
  ExperimentTask task = needles();
  task.depths = {0, 12.5};
  task.samples = 4;
  EXPECT_EQ(ask_task(task, {}, demo_model()).parts, (std::vector<std::string>{"0", "12.5", "0", "12.5"}));
}

TEST(ExperimentTasks, AskOnlyPhoneBooksThatTheModelCanRead) {
  ExperimentTask task;
  task.name = "books";
  task.kind = "phonebook";
  task.entries = {4, 8, 4000};
  task.samples = 2;
  const AskedTask asked = ask_task(task, {}, demo_model());
  EXPECT_THAT(asked.cannot_run, IsEmpty());
  EXPECT_EQ(asked.parts, (std::vector<std::string>{"4", "8", "4", "8"}));
  EXPECT_THAT(asked.left_out, AllOf(HasSubstr("4000 entries"), HasSubstr("context")));
  task.entries = {4000};
  EXPECT_THAT(ask_task(task, {}, demo_model()).cannot_run, HasSubstr("context"));
}

TEST(ExperimentTasks, OfLongBenchSayWhichDataSetsAreMissing) {
  const test::ScratchFolder folder;
  const auto file = folder.file("rows.jsonl");
  std::ofstream(file) << R"({"dataset": "trec", "input": "What?", "context": "Type: x", "answers": ["x"],)"
                      << R"( "all_classes": ["x"], "length": 3, "language": "en", "_id": "1"})"
                      << "\n";
  ExperimentTask task;
  task.name = "longbench";
  task.kind = "longbench";
  task.parts = {"trec", "qasper"};
  ReproductionOptions options;
  options.longbench = {file};
  const AskedTask asked = ask_task(task, options, demo_model());
  EXPECT_THAT(asked.cannot_run, IsEmpty());
  EXPECT_EQ(asked.parts, (std::vector<std::string>{"trec"}));
  EXPECT_THAT(asked.left_out, HasSubstr("no row of qasper"));
  task.parts = {"trec"};
  EXPECT_THAT(ask_task(task, options, demo_model()).left_out, IsEmpty());
}

TEST(ExperimentTasks, ScoreWhetherAnAnswerIsEmpty) {
  ExperimentTask task = needles();
  task.score = "empty";
  const AskedTask asked = ask_task(task, {}, demo_model());
  EXPECT_EQ(asked.task.score, "empty");
  capture::Completion completion;
  const auto empty = [&](const std::string& text) {
    completion.text = text;
    return asked.task.scorer(asked.task.examples.front(), completion).back();
  };
  EXPECT_EQ(empty(" \n"), (std::pair<std::string, double>{"empty", 1}));
  EXPECT_EQ(empty(" 7\n").second, 0);
}

TEST(ExperimentTasks, SayWhyTheyCannotBeAsked) {
  const auto reason = [](const auto& change) {
    ExperimentTask task = needles();
    change(task);
    return ask_task(task, {}, demo_model()).cannot_run;
  };
  EXPECT_THAT(reason([](ExperimentTask& task) { task.length = 100'000; }), HasSubstr("context"));
  EXPECT_THAT(reason([](ExperimentTask& task) { task.kind = "riddles"; }), HasSubstr("there are niah"));
  EXPECT_THAT(reason([](ExperimentTask& task) { task.kind = "longbench"; }), HasSubstr("--longbench"));
  EXPECT_THAT(reason([](ExperimentTask& task) { task.kind = "math500"; }), HasSubstr("--math500"));
}

}  // namespace
}  // namespace keyscope::grid
