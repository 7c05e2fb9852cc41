#include "app/sweep/worker.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/sweep/status.hpp"
#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/app/sweep/planned_cells.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/small_disk.hpp"

namespace keyscope::sweep {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Longer than a claim.
std::string line_of(const Cell& cell) {
  return fmt::format("{{\"index\":{},\"padding\":\"{}\"}}\n", cell.index, std::string(1000, 'x'));
}

// A job whose cells say their number, and which does before what a test wants.
class CountingJob final : public Job {
 public:
  using Before = std::function<void(std::int64_t index)>;
  CountingJob(std::int64_t n_cells, Before before) : n_cells_(n_cells), before_(std::move(before)) {}

  void for_each_cell(const EachCell& each) override {
    for (std::int64_t i = 0; i < n_cells_; ++i) {
      Cell cell;
      cell.id = cell_digest({{"cell", i}});
      cell.batch = cell_digest({{"batch", i / 3}});
      cell.index = i;
      cell.tokens = 1;
      cell.about = "{}";
      each(cell);
    }
  }

  void run(std::span<const Cell> batch, const JobWatch& watch) override {
    for (const Cell& cell : batch) {
      if (cancelled_) throw Cancelled("interrupted");
      if (before_) before_(cell.index);
      watch.done(cell, {line_of(cell)});
    }
  }
  void cancel() override { cancelled_ = true; }

 private:
  std::int64_t n_cells_;
  Before before_;
  std::atomic<bool> cancelled_ = false;
};

class CountingJobs final : public JobMaker {
 public:
  CountingJobs(std::int64_t n_cells, CountingJob::Before before)
      : n_cells_(n_cells), before_(std::move(before)) {}
  PlannedModel planned_model(const std::string& name) override { return {name, "aa", "bb"}; }
  std::unique_ptr<Job> make(const Study&, int, const PlannedModel&, int) override {
    return std::make_unique<CountingJob>(n_cells_, before_);
  }

 private:
  std::int64_t n_cells_;
  CountingJob::Before before_;
};

class WorkerTest : public ::testing::Test {
 protected:
  void plan(std::int64_t n_cells) {
    CountingJobs jobs(n_cells, {});
    const Study study{"study", "/", {"m"}, {0}, {{"count", nlohmann::ordered_json::object()}}};
    plan_ = folder_.write([&](const EachCell& each) {
      return plan_study(
          study, jobs, [](std::int64_t, std::int64_t) {}, each);
    });
    n_cells_ = n_cells;
  }

  WorkerOutcome work(CountingJob::Before before = {}, Share share = {},
                     std::chrono::milliseconds lease = 2s) {
    CountingJobs jobs(n_cells_, std::move(before));
    return run_worker(folder_, plan_, jobs, {share, lease},
                      {cancelled_, [](Job*) {}, [](std::int64_t, std::int64_t, const std::string&) {}});
  }

  void expect_all_there() const {
    for (const Cell& cell : cells_of(folder_, plan_))
      EXPECT_EQ(read_result(folder_, cell.id).lines, line_of(cell));
    EXPECT_TRUE(std::filesystem::is_empty(folder_.claims()));
  }

  test::ScratchFolder scratch_;
  SweepFolder folder_{scratch_.file("study")};
  Plan plan_;
  std::int64_t n_cells_ = 0;
  std::atomic<bool> cancelled_ = false;
};

TEST_F(WorkerTest, DoesEveryCellOnce) {
  plan(10);
  EXPECT_EQ(work().n_done, 10);
  expect_all_there();
  EXPECT_EQ(work([](std::int64_t) { FAIL() << "all are finished"; }).n_done, 0);
}

TEST_F(WorkerTest, GoesOnAfterAnInterrupt) {
  plan(10);
  EXPECT_THROW(work([&](std::int64_t index) { cancelled_ = cancelled_ || index == 7; }), Cancelled);
  cancelled_ = false;
  EXPECT_EQ(work().n_done, 10 - 9) << "a batch that was begun is finished";
  expect_all_there();
}

TEST_F(WorkerTest, SharesWithOthers) {
  plan(60);
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> n_done = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      n_done += work([](std::int64_t) { std::this_thread::sleep_for(2ms); }, {i, 4}).n_done;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_done, 60);
  expect_all_there();
}

// Workers that die at any moment: in a batch of three cells, before, between and after results.
TEST_F(WorkerTest, FinishesWhatTheDeadLeave) {
  plan(12);
  for (std::int64_t last = 0; last < 12; ++last) {
    const pid_t child = fork();
    if (child == 0) {
      work([&](std::int64_t index) {
        if (index == last) kill(getpid(), SIGKILL);
      });
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  work();
  expect_all_there();
  EXPECT_EQ(status_of(folder_, plan_).n_done, 12);
}

TEST_F(WorkerTest, NotesFailuresAndGoesOn) {
  plan(9);
  const WorkerOutcome outcome = work([](std::int64_t index) {
    if (index == 4) throw Error("it is raining");
  });
  EXPECT_EQ(outcome.n_done, 7);
  EXPECT_EQ(outcome.n_failed, 2) << "the one, and what was to follow it in its batch";
  const Status status = status_of(folder_, plan_);
  EXPECT_EQ(status.n_failed, 2);
  EXPECT_EQ(status.failures.front().error, "it is raining");
  EXPECT_EQ(work([](std::int64_t) { FAIL() << "what has failed is not tried by others"; }).n_done, 0);
}

// A broken machine must not go through a study and fail it.
TEST_F(WorkerTest, GivesUpWhereNothingElseComes) {
  plan(60);
  const auto fails = [](std::int64_t) { throw Error("no GPU here"); };
  EXPECT_THAT([&] { work(fails); },
              ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("3 batches"), HasSubstr("no GPU here"))));
  EXPECT_EQ(status_of(folder_, plan_).n_failed, 9);
}

// A full disk here is no cell's fault: nothing is noted, the claim is given up, and others do the work.
TEST_F(WorkerTest, EndsWhereResultsCannotBeKept) {
  plan(6);
  {
    const figures::SmallDisk disk(100);
    EXPECT_THROW(work(), FileError) << "no room for a claim";
  }
  {
    const figures::SmallDisk disk(400);
    EXPECT_THROW(work([](std::int64_t) {}, {}, 2s), KeepError) << "but for a claim alone";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.claims()));
  EXPECT_EQ(status_of(folder_, plan_).n_failed, 0);
  EXPECT_TRUE(folder_.finished().empty());
  EXPECT_EQ(work().n_done, 6);
  expect_all_there();
}

TEST_F(WorkerTest, LeavesOthersTheirCells) {
  plan(3);
  std::ofstream(folder_.claims() / cells_of(folder_, plan_).front().batch)
      << R"({"host":"elsewhere","pid":1,"machine":"m","began":1,"token":"t","lease_ms":60000})"
      << "\n";
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(work({}, {}, 200ms).n_left, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 30s);
}

TEST(Shares, ComeFromLaunchers) {
  const auto share = [](const std::map<std::string, std::string>& variables) {
    return share_of_launcher([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  const auto is = [](std::optional<Share> found, int index, int count) {
    return found && found->index == index && found->count == count;
  };
  EXPECT_FALSE(share({}));
  EXPECT_TRUE(is(
      share({{"SLURM_ARRAY_TASK_ID", "5"}, {"SLURM_ARRAY_TASK_COUNT", "8"}, {"SLURM_ARRAY_TASK_MIN", "1"}}),
      4, 8));
  EXPECT_TRUE(is(share({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}}), 3, 4));
  EXPECT_TRUE(is(share({{"OMPI_COMM_WORLD_RANK", "2"},
                        {"OMPI_COMM_WORLD_SIZE", "8"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_NTASKS", "1"}}),
                 2, 8));
  EXPECT_TRUE(is(share({{"PMI_RANK", "7"}, {"PMI_SIZE", "8"}}), 7, 8));
  EXPECT_TRUE(is(share({{"SLURM_ARRAY_TASK_ID", "1"},
                        {"SLURM_ARRAY_TASK_COUNT", "2"},
                        {"SLURM_PROCID", "3"},
                        {"SLURM_NTASKS", "4"}}),
                 7, 8));
  EXPECT_THROW(share({{"SLURM_PROCID", "x"}, {"SLURM_NTASKS", "4"}}), UsageError);
  EXPECT_TRUE(is(parse_share("2/8"), 1, 8));
  for (const char* text : {"", "2", "0/8", "9/8", "2/8x", "-1/2", "1/0"})
    EXPECT_THROW(parse_share(text), UsageError) << text;
}

}  // namespace
}  // namespace keyscope::sweep
