
#include "app/sweep/study_plan.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/sweep/status.hpp"
#include "app/sweep/study.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "app/sweep/worker.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::sweep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StudyFile : public ::testing::Test {
 protected:
  Study read(const std::string& text) const {
    std::ofstream(folder_.file("study.json")) << text;
    return read_study(folder_.file("study.json"));
  }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const FileError& error) {
      return error.what();
    }
    return "read";
  }

  test::ScratchFolder folder_;
};

TEST_F(StudyFile, HasOptionsAsTheCommandLine) {
  const Study study = read(R"({"name": "a", "models": ["m", "ORG/NAME@v1"], "seeds": [3, 1], "jobs": [
      {"command": "eval niah", "policy": ["keydiff", "sink:first=8"], "budget": "25%", "length": [512, 1024],
       "skip-bad": true}]})");
  EXPECT_EQ(study.folder, folder_.path());
  EXPECT_THAT(study.seeds, ElementsAre(3, 1));
  EXPECT_EQ(study.jobs.front().command, "eval niah");
  EXPECT_THAT(study.jobs.front().words(),
              ElementsAre("--policy=keydiff", "--policy=sink:first=8", "--budget=25%", "--length=512",
                          "--length=1024", "--skip-bad"));
  EXPECT_THAT(read(R"({"models": ["m"], "jobs": [{"command": "validate", "block": 8}]})").seeds,
              ElementsAre(0));
}

TEST_F(StudyFile, IsRefusedByFileAndField) {
  EXPECT_THAT(refusal("{"), HasSubstr("study.json"));
  EXPECT_THAT(refusal(R"({"jobs": []})"), HasSubstr("models"));
  EXPECT_THAT(refusal(R"({"models": [], "jobs": [{"command": "validate"}]})"),
              HasSubstr("\"models\" is empty"));
  EXPECT_THAT(refusal(R"({"models": ["m", "m"], "jobs": [{"command": "validate"}]})"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"models": ["m"], "jobs": []})"), HasSubstr("\"jobs\" is empty"));
  EXPECT_THAT(refusal(R"({"models": ["m"], "jobs": [{"policy": "sink"}]})"),
              HasSubstr("jobs[0]: found no \"command\""));
  EXPECT_THAT(refusal(R"({"models": ["m"], "seeds": [-1], "jobs": [{"command": "validate"}]})"),
              HasSubstr("seeds[0]"));
  EXPECT_THAT(refusal(R"({"models": ["m"], "job": []})"), AllOf(HasSubstr("job"), HasSubstr("not known")));
  for (const char* name : {"model", "seed", "out", "force"})
    EXPECT_THAT(
        refusal(fmt::format(R"({{"models": ["m"], "jobs": [{{"command": "validate", "{}": "x"}}]}})", name)),
        HasSubstr(fmt::format("\"{}\" is no option of a job", name)));
  for (const char* value : {"null", "{}", "[]", "false", "[[1]]"})
    EXPECT_THAT(refusal(fmt::format(
                    R"({{"models": ["m"], "jobs": [{{"command": "validate", "block": {}}}]}})", value)),
                HasSubstr("jobs[0].block: found"));
  EXPECT_THAT(refusal(R"({"models": ["m"], "jobs": [{"command": "validate"}, {"command": "validate"}]})"),
              HasSubstr("the same as an earlier one"));
}

Plan plan_of(std::size_t n_cells) {
  Plan plan;
  plan.study = {"study", "/", {"m"}, {0}, {{"validate", nlohmann::ordered_json::object()}}};
  plan.program_version = "1";
  plan.models = {{"m", "aa", "bb"}};
  for (std::size_t i = 0; i < n_cells; ++i) {
    Cell cell;
    cell.id = cell_digest({{"cell", i}});
    cell.batch = cell_digest({{"batch", i / 2}});
    cell.index = static_cast<std::int64_t>(i);
    cell.tokens = 10;
    cell.seconds = 0.5;
    cell.about = R"({"prompt":"é\n"})";
    plan.cells.push_back(cell);
  }
  return plan;
}

TEST(SweepPlan, ReadsBackAsItWasWritten) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  const Plan plan = plan_of(5);
  folder.write(plan);
  const Plan read = folder.read();
  EXPECT_EQ(read.study.json(), plan.study.json());
  EXPECT_EQ(read.models.front().weights_sha256, "bb");
  ASSERT_EQ(read.cells.size(), 5);
  EXPECT_EQ(read.cells[3].id, plan.cells[3].id);
  EXPECT_EQ(nlohmann::json::parse(read.cells[3].about), nlohmann::json::parse(plan.cells[3].about));
  EXPECT_THAT(read.batch_starts(), ElementsAre(0, 2, 4, 5));
}

TEST(SweepPlan, IsNotReadWhereItIsDamagedOrForeign) {
  const test::ScratchFolder scratch;
  const SweepFolder none(scratch.path());
  EXPECT_THROW(none.read(), FileError);
  std::ofstream(scratch.file("letter.txt")) << "dear";
  EXPECT_THROW(none.write(plan_of(1)), FileError) << "the folder holds something else";
  const SweepFolder folder(scratch.file("study"));
  folder.write(plan_of(3));
  const std::string cells = read_file(folder.path() / "cells.jsonl");
  for (const std::string& damaged :
       {cells.substr(0, cells.size() - 30), cells.substr(0, cells.find('\n') + 1), cells + "{}\n"}) {
    std::ofstream(folder.path() / "cells.jsonl") << damaged;
    EXPECT_THROW(folder.read(), FileError);
  }
}

TEST(SweepPlan, NamesNoFileOutsideItsFolder) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  const Plan plan = plan_of(1);
  folder.write(plan);
  const std::string cells = read_file(folder.path() / "cells.jsonl");
  const std::string& id = plan.cells.front().id;
  for (const char* name : {"../../../tmp/elsewhere", "", "0123456789ABCDEF0123456789ABCDEF"}) {
    std::string damaged = cells;
    std::ofstream(folder.path() / "cells.jsonl") << damaged.replace(damaged.find(id), id.size(), name);
    EXPECT_THROW(folder.read(), FileError) << name;
  }
}

TEST(SweepResult, ReadsBackAndSaysWhereItIsDamaged) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  const Plan plan = plan_of(4);
  folder.write(plan);
  const std::string& cell = plan.cells[1].id;
  write_result(folder, {cell, "1", "node7:12", 2.5}, "{\"a\":1}\n{\"b\":2}\n", "token");
  const Result result = read_result(folder, cell);
  EXPECT_EQ(result.lines, "{\"a\":1}\n{\"b\":2}\n");
  EXPECT_EQ(result.head.worker, "node7:12");
  const std::string text = read_file(folder.result(cell));
  for (std::size_t size = 0; size < text.size(); ++size) {
    std::ofstream(folder.result(cell), std::ios::trunc) << text.substr(0, size);
    EXPECT_THROW(read_result(folder, cell), FileError) << size;
  }
}

TEST(SweepStatus, CountsCellsOnce) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  Plan plan = plan_of(6);
  plan.cells.push_back(plan.cells.front());  // in two jobs
  folder.write(plan);
  write_result(folder, {plan.cells[0].id, "1", "w", 1}, "", "t");
  write_result(folder, {cell_digest({{"cell", "of an earlier plan"}}), "1", "w", 1}, "", "t");
  write_failure(folder, {plan.cells[1].id, "w", "it is raining"}, "t");
  std::ofstream(folder.claims() / plan.cells[2].batch) << "{}";
  const Status status = status_of(folder, plan);
  EXPECT_EQ(status.n_planned, 6);
  EXPECT_EQ(status.n_done, 1);
  EXPECT_EQ(status.n_failed, 1);
  EXPECT_EQ(status.n_running, 2);
  EXPECT_EQ(status.n_unplanned, 1);
  EXPECT_EQ(status.failures.front().error, "it is raining");
  EXPECT_FALSE(status.measured);
  EXPECT_DOUBLE_EQ(status.seconds_left_one, 4 * 0.5);
}

}  // namespace
}  // namespace keyscope::sweep
