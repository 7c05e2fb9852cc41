#include "capture/recording/fair_mutex.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope::recording {
namespace {

TEST(FairMutex, HoldsOthersOffUntilItsOwnerHasLeftAsOftenAsItCame) {
  FairMutex mutex;
  std::atomic<bool> entered = false;
  mutex.lock();
  mutex.lock();
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    entered = true;
  });
  mutex.unlock();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(entered);
  mutex.unlock();
  other.join();
  EXPECT_TRUE(entered);
}

TEST(FairMutex, WhoeverWaitsComesBeforeWhoeverLocksAgain) {
  FairMutex mutex;
  std::atomic<bool> waiting = false;
  std::atomic<bool> done = false;
  mutex.lock();
  std::thread other([&] {
    waiting = true;
    const std::lock_guard lock(mutex);
    done = true;
  });
  while (!waiting) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // from there to its place in the queue
  mutex.unlock();
  mutex.lock();
  EXPECT_TRUE(done);
  mutex.unlock();
  other.join();
}

TEST(FairMutex, LetsOneInAtATime) {
  constexpr int kThreads = 4, kTimes = 2000;
  FairMutex mutex;
  int count = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (int time = 0; time < kTimes; ++time) {
          const std::lock_guard outer(mutex);
          const std::lock_guard inner(mutex);
          ++count;
        }
      });
  }
  EXPECT_EQ(count, kThreads * kTimes);
}

}  // namespace
}  // namespace keyscope::recording
