#include "app/evaluation/longbench_tasks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/evaluation/longbench_prompt.hpp"
#include "tests/app/evaluation/evaluation_goldens.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LongBenchTasks, AskAsTheBenchmarkDoes) {
  const nlohmann::json goldens = read_goldens("longbench_goldens.json", "tasks");
  ASSERT_EQ(longbench_tasks().size(), goldens.size());
  for (const LongBenchTask& task : longbench_tasks()) {
    SCOPED_TRACE(task.name);
    const auto& golden = goldens.at(std::string(task.name));
    // Braces in a row's own text are text.
    EXPECT_EQ(longbench_text(task, "{input} <c>", "{context} <i>"), golden["prompt"].get<std::string>());
    EXPECT_EQ(task.max_new_tokens, golden["max_new_tokens"].get<std::int64_t>());
  }
}

TEST(LongBenchTasks, FewShotAndCodeAreNoChat) {
  std::vector<std::string_view> plain, first_line, one_line;
  for (const LongBenchTask& task : longbench_tasks()) {
    if (!task.chat) plain.push_back(task.name);
    if (task.first_line_only) first_line.push_back(task.name);
    if (task.one_line) one_line.push_back(task.name);
  }
  EXPECT_THAT(plain, ::testing::ElementsAre("trec", "triviaqa", "samsum", "lcc", "repobench-p"));
  EXPECT_THAT(first_line, ::testing::ElementsAre("trec", "triviaqa", "samsum"));
  EXPECT_THAT(one_line, ::testing::ElementsAre("samsum"));
}

TEST(LongBenchTasks, AreFoundByTheirNamesInBothBenchmarks) {
  ASSERT_NE(find_longbench_task("qasper"), nullptr);
  EXPECT_EQ(find_longbench_task("qasper"), find_longbench_task("qasper_e"));
  EXPECT_EQ(find_longbench_task("Qasper"), nullptr);
  EXPECT_EQ(find_longbench_task(""), nullptr);
}

TEST(LongBenchTasks, SayWhyThereIsNone) {
  EXPECT_THAT(no_longbench_task("qspr"),
              AllOf(HasSubstr("qspr"), HasSubstr("not known"), HasSubstr("musique")));
  for (const char* chinese : {"multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"}) {
    EXPECT_EQ(find_longbench_task(chinese), nullptr);
    EXPECT_THAT(no_longbench_task(chinese), AllOf(HasSubstr(chinese), HasSubstr("segmenter")));
  }
}

}  // namespace
}  // namespace keyscope::evaluation
