#include "base/jobs.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope {

namespace {

// Holds the queue's thread until told to go on.
struct Gate {
  std::promise<void> started, go_on;
  void operator()() {
    started.set_value();
    go_on.get_future().wait();
  }
};

TEST(JobQueue, ANewerJobReplacesAWaitingOneOfItsKind) {
  std::vector<int> done;
  {
    JobQueue queue(JobQueue::Priority::kNormal);
    Gate gate;
    queue.post("gate", [&] { gate(); });
    gate.started.get_future().wait();
    EXPECT_FALSE(queue.idle());
    queue.post("head", [&] { done.push_back(1); });
    queue.post("other", [&] { done.push_back(2); });
    queue.post("head", [&] { done.push_back(3); });
    std::promise<void> last;
    queue.post("last", [&] { last.set_value(); });
    gate.go_on.set_value();
    last.get_future().wait();
  }
  EXPECT_EQ(done, (std::vector<int>{3, 2}));
}

TEST(JobQueue, ADelayedJobLetsOthersPassAndMayBeReplacedMeanwhile) {
  std::vector<int> done;
  std::promise<void> last;
  JobQueue queue(JobQueue::Priority::kNormal);
  const auto start = JobQueue::Clock::now();
  constexpr std::chrono::milliseconds kDelay{30};
  queue.post(
      "settle", [&] { done.push_back(1); }, std::chrono::hours(1));
  std::promise<void> other;
  queue.post("other", [&] {
    done.push_back(2);
    other.set_value();
  });
  other.get_future().wait();
  EXPECT_FALSE(queue.idle());
  EXPECT_TRUE(queue.post(
      "settle",
      [&] {
        done.push_back(3);
        last.set_value();
      },
      kDelay));
  last.get_future().wait();
  EXPECT_EQ(done, (std::vector<int>{2, 3}));
  EXPECT_GE(JobQueue::Clock::now() - start, kDelay);
}

TEST(JobQueue, EndsWithoutRunningWhatWaits) {
  std::atomic<bool> ran = false;
  Gate gate;
  {
    JobQueue queue(JobQueue::Priority::kLow);
    queue.post("gate", [&] { gate(); });
    gate.started.get_future().wait();
    queue.post("later", [&] { ran = true; });
    std::thread([&] { gate.go_on.set_value(); }).detach();
  }
  // Either the queue was ending when the gate opened, or the job ran before; it never runs after.
  const bool by_then = ran;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ran, by_then);
}

using std::chrono::seconds;

constexpr JobWatch::Clock::time_point kAsked{};

TEST(JobWatch, WaitingIsSaidInSeconds) {
  const JobWatch watch("opening run.h5", "layers", kAsked);
  const JobStatus status = watch.status(kAsked + seconds(7));
  EXPECT_EQ(describe_job(status), "opening run.h5 … 7 s");
  EXPECT_EQ(share_done(status), 0);
}

// It waited for three seconds before it began: they say nothing of its rate.
TEST(JobWatch, TheRateCountsFromTheFirstReport) {
  JobWatch watch("opening run.h5", "layers", kAsked);
  watch.note(0, 64, kAsked + seconds(3));
  watch.note(16, 64, kAsked + seconds(7));
  const JobStatus status = watch.status(kAsked + seconds(7));
  EXPECT_DOUBLE_EQ(*seconds_left(status), 12);  // 48 layers at 4 a second
  EXPECT_DOUBLE_EQ(share_done(status), 0.25);
  EXPECT_EQ(describe_job(status), "opening run.h5: 16 of 64 layers, 4.0 layers/s, 12 s left");
}

TEST(JobWatch, WhatIsCountedMayEndBeforeTheJob) {
  JobWatch watch("exporting bounds to a.svg", "heads", kAsked);
  watch.note(0, 4, kAsked);
  watch.note(4, 4, kAsked + seconds(2));
  const JobStatus status = watch.status(kAsked + seconds(5));
  EXPECT_EQ(seconds_left(status), std::nullopt);
  EXPECT_EQ(describe_job(status), "exporting bounds to a.svg … 5 s");
}

// Two reports within one tick of the clock: no rate, and no division by zero.
TEST(JobWatch, ARateThatIsNotKnownIsLeftOut) {
  JobWatch watch("opening run.h5", "layers", kAsked);
  watch.note(0, 8, kAsked);
  watch.note(1, 8, kAsked);
  EXPECT_EQ(describe_job(watch.status(kAsked)), "opening run.h5: 1 of 8 layers");
}

TEST(JobWatch, OnceCalledOffTheWorkerIsTold) {
  JobWatch watch("opening run.h5", "layers", kAsked);
  EXPECT_NO_THROW(watch.check());
  watch.cancel();
  EXPECT_THROW(watch.check(), Cancelled);
  EXPECT_EQ(describe_job(watch.status(kAsked)), "stopping: opening run.h5");
}

}  // namespace

}  // namespace keyscope
