
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
#include "tests/app/sweep/planned_cells.hpp"
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

Plan small_plan() {
  Plan plan;
  plan.study = {"study", "/", {"m"}, {0}, {{"validate", nlohmann::ordered_json::object()}}};
  plan.program_version = "1";
  plan.models = {{"m", "aa", "bb"}};
  return plan;
}

std::vector<Cell> some_cells(std::size_t n_cells) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < n_cells; ++i) {
    Cell cell;
    cell.id = cell_digest({{"cell", i}});
    cell.batch = cell_digest({{"batch", i / 2}});
    cell.index = static_cast<std::int64_t>(i);
    cell.tokens = 10;
    cell.seconds = 0.5;
    cell.about = R"({"prompt":"é\n"})";
    cells.push_back(cell);
  }
  return cells;
}

TEST(SweepPlan, ReadsBackAsItWasWritten) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  Plan plan = small_plan();
  const auto cells = some_cells(5);
  write_plan(folder, plan, cells);
  const Plan read = folder.read();
  EXPECT_EQ(read.study.json(), plan.study.json());
  EXPECT_EQ(read.models.front().weights_sha256, "bb");
  const auto read_cells = cells_of(folder, read);
  ASSERT_EQ(read_cells.size(), 5);
  EXPECT_EQ(read_cells[3].id, cells[3].id);
  EXPECT_EQ(nlohmann::json::parse(read_cells[3].about), nlohmann::json::parse(cells[3].about));
  CellReader from(folder, read);
  from.next();
  const auto place = from.place();
  while (from.next()) {
  }
  from.go_to(place);
  EXPECT_EQ(from.next()->id, cells[1].id) << "from any place on";
}

TEST(SweepPlan, IsNotReadWhereItIsDamagedOrForeign) {
  const test::ScratchFolder scratch;
  const SweepFolder none(scratch.path());
  EXPECT_THROW(none.read(), FileError);
  std::ofstream(scratch.file("letter.txt")) << "dear";
  Plan plan = small_plan();
  EXPECT_THROW(write_plan(none, plan, some_cells(1)), FileError) << "the folder holds something else";
  const SweepFolder folder(scratch.file("study"));
  write_plan(folder, plan, some_cells(3));
  const std::string cells = read_file(folder.path() / "cells.jsonl");
  for (const std::string& damaged :
       {cells.substr(0, cells.size() - 30), cells.substr(0, cells.find('\n') + 1), cells + "{}\n"}) {
    std::ofstream(folder.path() / "cells.jsonl") << damaged;
    EXPECT_THROW(cells_of(folder, folder.read()), FileError);
  }
}

TEST(SweepPlan, LeavesWhatThereWasWhereItIsEnded) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  const auto ended = [](const EachCell& each) -> Plan {
    for (const Cell& cell : some_cells(2)) each(cell);
    throw Cancelled("interrupted");
  };
  EXPECT_THROW(folder.write(ended), Cancelled);
  EXPECT_THROW(folder.read(), FileError);
  // As a program that was killed leaves it.
  std::ofstream(folder.path() / "cells.jsonl.4711.part") << "{";
  std::filesystem::create_directories(folder.path() / "claims");
  Plan plan = small_plan();
  write_plan(folder, plan, some_cells(3));
  EXPECT_THROW(folder.write(ended), Cancelled);
  EXPECT_EQ(cells_of(folder, folder.read()).size(), 3);
}

TEST(SweepPlan, NamesNoFileOutsideItsFolder) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  Plan plan = small_plan();
  const std::string id = some_cells(1).front().id;
  write_plan(folder, plan, some_cells(1));
  const std::string cells = read_file(folder.path() / "cells.jsonl");
  for (const char* name : {"../../../tmp/elsewhere", "", "0123456789ABCDEF0123456789ABCDEF"}) {
    std::string damaged = cells;
    std::ofstream(folder.path() / "cells.jsonl") << damaged.replace(damaged.find(id), id.size(), name);
    EXPECT_THROW(cells_of(folder, folder.read()), FileError) << name;
  }
}

TEST(SweepResult, ReadsBackAndSaysWhereItIsDamaged) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  Plan plan = small_plan();
  write_plan(folder, plan, some_cells(4));
  const std::string cell = some_cells(4)[1].id;
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
  Plan plan = small_plan();
  auto cells = some_cells(6);
  cells.push_back(cells.front());  // in two jobs
  write_plan(folder, plan, cells);
  write_result(folder, {cells[0].id, "1", "w", 1}, "", "t");
  write_result(folder, {cell_digest({{"cell", "of an earlier plan"}}), "1", "w", 1}, "", "t");
  write_failure(folder, {cells[1].id, "w", "it is raining"}, "t");
  std::ofstream(folder.claims() / cells[2].batch) << "{}";
  const Status status = status_of(folder, plan);
  EXPECT_EQ(status.n_planned, 6);
  EXPECT_EQ(status.n_done, 1);
  EXPECT_EQ(status.n_failed, 1);
  EXPECT_EQ(status.n_running, 2);
  EXPECT_EQ(status.n_unplanned, 1);
  EXPECT_EQ(status.failures.front().error, "it is raining");
  CellCount count(folder, plan);
  count.update();
  EXPECT_EQ(count.n_planned(), 6);
  EXPECT_EQ(count.n_done(), 1);
  EXPECT_EQ(count.n_over(), 2);
  EXPECT_FALSE(status.measured);
  EXPECT_DOUBLE_EQ(status.seconds_left_one, 4 * 0.5);
}

// Cells of what cannot be listed would pass for missing, and be run again. Root may list everything but this.
TEST(SweepStatus, OfWhatIsNoFolderIsRefused) {
  for (const char* name : {"results/00", "failures", "claims", "workers"}) {
    const test::ScratchFolder scratch;
    const SweepFolder folder(scratch.file("study"));
    Plan plan = small_plan();
    write_plan(folder, plan, some_cells(6));
    std::filesystem::remove(folder.path() / name);
    EXPECT_EQ(status_of(folder, plan).n_planned, 6) << "what is not there has nothing: " << name;
    std::ofstream(folder.path() / name) << "x";
    try {
      status_of(folder, plan);
      FAIL() << name;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr((folder.path() / name).string()), HasSubstr("cannot be listed")));
    }
  }
}

TEST(SweepStatus, OfAWorkerThatCannotBeReadIsRefused) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  Plan plan = small_plan();
  write_plan(folder, plan, some_cells(6));
  std::filesystem::create_symlink("nowhere", folder.workers() / "w.jsonl");
  EXPECT_THROW(status_of(folder, plan), FileError);
}

// A worker finishes a failed cell between the listing and the reading.
TEST(SweepStatus, LeavesOutAFailureThatHasGone) {
  const test::ScratchFolder scratch;
  const SweepFolder folder(scratch.file("study"));
  Plan plan = small_plan();
  const auto cells = some_cells(6);
  write_plan(folder, plan, cells);
  std::filesystem::create_symlink("gone", folder.failure(cells[1].id));  // listed, and not there
  write_failure(folder, {cells[2].id, "w", "it still is"}, "t");
  const Status status = status_of(folder, plan);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_EQ(status.failures.front().error, "it still is");
  std::ofstream(folder.failure(cells[2].id)) << "{";
  EXPECT_THROW(status_of(folder, plan), FileError) << "what is there and damaged is said";
}

}  // namespace
}  // namespace keyscope::sweep
