#include "app/sweep/work_claims.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::sweep {
namespace {

using namespace std::chrono_literals;

class ClaimsTest : public ::testing::Test {
 protected:
  // A worker of this process; on another machine where a name is given.
  Claims worker(std::chrono::milliseconds lease = 10s, const std::string& machine = "") const {
    WorkerIdentity identity = WorkerIdentity::of_this_process();
    if (!machine.empty()) identity.machine = identity.host = machine;
    return {folder_.path(), identity, lease};
  }

  std::size_t n_files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()),
                         std::filesystem::directory_iterator());
  }

  // Claims as a process that is killed at once.
  void claim_and_die(const std::string& name, const std::string& machine = "") const {
    const pid_t child = fork();
    if (child == 0) {
      Claims claims = worker(10s, machine);
      claims.claim(name);
      kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
  }

  // How many of so many workers get a claim that they ask for at once; all give it up again.
  int n_that_claim(int n_workers) const {
    std::atomic<int> n_claimed = 0, n_ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < n_workers; ++i)
      threads.emplace_back([&] {
        Claims claims = worker();
        for (++n_ready; n_ready < n_workers;) std::this_thread::yield();
        if (claims.claim("a")) ++n_claimed;
        for (++n_ready; n_ready < 2 * n_workers;) std::this_thread::yield();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(n_files(), 0);
    return n_claimed;
  }

  test::ScratchFolder folder_;
};

TEST_F(ClaimsTest, HoldUntilTheyAreGivenUp) {
  Claims one = worker(), other = worker(10s, "elsewhere");
  EXPECT_TRUE(one.claim("a"));
  EXPECT_FALSE(other.claim("a"));
  EXPECT_TRUE(other.claim("b"));
  one.give_up();
  other.give_up();
  EXPECT_EQ(n_files(), 0);
  EXPECT_TRUE(other.claim("a"));
}

TEST_F(ClaimsTest, AreMadeByOneOfMany) {
  for (int round = 0; round < 20; ++round) EXPECT_EQ(n_that_claim(8), 1);
}

TEST_F(ClaimsTest, OfADeadProcessOfThisMachineAreTakenOverAtOnce) {
  claim_and_die("a");
  ASSERT_EQ(n_files(), 1);
  Claims claims = worker();
  EXPECT_TRUE(claims.claim("a"));
}

TEST_F(ClaimsTest, OfADeadProcessElsewhereAreTakenOverAfterItsLease) {
  const pid_t child = fork();
  if (child == 0) {
    Claims claims = worker(400ms, "elsewhere");
    claims.claim("a");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  Claims claims = worker();
  const auto started = std::chrono::steady_clock::now();
  while (!claims.claim("a")) {
    ASSERT_LT(std::chrono::steady_clock::now() - started, 30s);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - started, 400ms)
      << "by this machine's clock, from when it was seen";
}

// Whatever the clocks say: the file's times are of another century.
TEST_F(ClaimsTest, AreHeldForAsLongAsTheyAreRenewed) {
  Claims holder = worker(400ms, "elsewhere"), other = worker();
  ASSERT_TRUE(holder.claim("a"));
  const auto until = std::chrono::steady_clock::now() + 2s;
  while (std::chrono::steady_clock::now() < until) {
    std::filesystem::last_write_time(folder_.file("a"),
                                     std::filesystem::file_time_type::clock::now() - 876000h);
    ASSERT_FALSE(other.claim("a"));
    std::this_thread::sleep_for(20ms);
  }
}

TEST_F(ClaimsTest, WhatWasTakenOverIsNoLongerHeld) {
  Claims stopped = worker(10s, "elsewhere"), other = worker();
  EXPECT_FALSE(stopped.is_held());
  ASSERT_TRUE(stopped.claim("a"));
  EXPECT_TRUE(stopped.is_held());
  std::filesystem::remove(folder_.file("a"));  // as taking over begins
  ASSERT_TRUE(other.claim("a"));
  EXPECT_FALSE(stopped.is_held());
  stopped.give_up();
  EXPECT_TRUE(other.is_held());
}

TEST_F(ClaimsTest, AreTakenOverByOneOfMany) {
  for (int round = 0; round < 20; ++round) {
    claim_and_die("a");
    EXPECT_EQ(n_that_claim(8), 1);
  }
}

// A worker that was stopped for longer than its lease neither renews nor removes the claim of who took over.
TEST_F(ClaimsTest, ThatWereLostAreLeftAlone) {
  Claims slow = worker(), quick = worker(10s, "elsewhere");
  ASSERT_TRUE(slow.claim("a"));
  std::filesystem::remove(folder_.file("a"));
  ASSERT_TRUE(quick.claim("a"));
  const std::string content = read_file(folder_.file("a"));
  slow.give_up();
  EXPECT_EQ(read_file(folder_.file("a")), content);
}

TEST_F(ClaimsTest, ThatSayNothingAreOverAfterALease) {
  std::ofstream(folder_.file("a")) << "\x01{";  // half written
  Claims claims = worker(300ms);
  EXPECT_FALSE(claims.claim("a"));
  std::this_thread::sleep_for(500ms);
  EXPECT_TRUE(claims.claim("a"));
}

TEST_F(ClaimsTest, NeedAFolderThatCanBeWrittenTo) {
  EXPECT_THROW(Claims(folder_.file("none"), WorkerIdentity::of_this_process(), 1s), FileError);
}

}  // namespace
}  // namespace keyscope::sweep
