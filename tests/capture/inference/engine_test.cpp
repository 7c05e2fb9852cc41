// How the engine's threads wait for each other.

#include "capture/inference/engine.hpp"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace keyscope::capture {
namespace {

constexpr const char* kPolicy = "OMP_WAIT_POLICY";

// NOLINTBEGIN(concurrency-mt-unsafe): the other threads read no environment
std::string wait_policy() {
  const char* found = std::getenv(kPolicy);
  return found == nullptr ? "" : found;
}

// The environment as it was, and as many busy threads as are asked for.
class WaitingThreads : public ::testing::Test {
 protected:
  WaitingThreads() { unsetenv(kPolicy); }
  ~WaitingThreads() override {
    ended_ = true;
    if (busy_.joinable()) busy_.join();
    unsetenv(kPolicy);
  }
  void keep_a_processor_busy() {
    busy_ = std::thread([this] {
      while (!ended_) {
      }
    });
  }

 private:
  std::atomic<bool> ended_ = false;
  std::thread busy_;
};

TEST_F(WaitingThreads, SleepWhereOthersRun) {
  keep_a_processor_busy();
  let_threads_sleep_on_busy_machines();
  EXPECT_EQ(wait_policy(), "passive");
}

TEST_F(WaitingThreads, DoAsTheEnvironmentSays) {
  keep_a_processor_busy();
  setenv(kPolicy, "active", 1);
  let_threads_sleep_on_busy_machines();
  EXPECT_EQ(wait_policy(), "active");
  unsetenv(kPolicy);
  setenv("GOMP_SPINCOUNT", "1000", 1);
  let_threads_sleep_on_busy_machines();
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_EQ(wait_policy(), "");
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace
}  // namespace keyscope::capture
