#include "app/session/job_queue.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope::session {
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

}  // namespace
}  // namespace keyscope::session
