// Policies in Python against those of the program that score alike.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/small_disk.hpp"

namespace keyscope::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPolicies = R"(import os

import numpy as np
import keyscope


def manifold(head):
    return np.linalg.norm(head.keys - head.keys.mean(axis=0, dtype=np.float64), axis=1)


@keyscope.policy(needs="values")
def cur(head):
    square = lambda rows: (rows.astype(np.float64) ** 2).sum(axis=1)
    return square(head.keys) * square(head.values)


@keyscope.policy(needs="attention_received")
def h2o(head):
    return head.attention_received


def sink(head):
    return np.where(head.positions < 4, np.inf, head.positions.astype(float))


def hangs(head):
    with open("hanging.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename("hanging.part", "hanging")
    while True:
        pass


def fails(head):
    return head.keys
)";

// Whether a process of /proc is there and has not ended.
bool is_running(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string id, name, state;
  return file >> id >> name >> state && state != "Z";
}

class PythonPolicyCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!use_python_with_numpy()) GTEST_SKIP() << "there is no Python with NumPy";
    std::ofstream(path("mine.py")) << kPolicies;
  }

  std::string path(const std::string& name) const { return folder_.file(name).string(); }
  std::string named(const std::string& function) const {
    return "python:" + path("mine.py") + ":" + function;
  }

  std::vector<std::string> capture(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> words{"capture",
                                   "--model",
                                   kDemoModel,
                                   "--prompt-file",
                                   kDemoModel + "/prompts/needle.txt",
                                   "--max-tokens",
                                   "200",
                                   "--budget",
                                   "40",
                                   "--block",
                                   "32",
                                   "--record",
                                   "keys,queries,values",
                                   "--quiet",
                                   "--out",
                                   path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Runs of two names keep the same rows in every head.
  void expect_alike(const std::string& file, const std::string& run, const std::string& other) const {
    const auto recording = recording::open_recording(path(file));
    const auto info = recording->info();
    const int a = info->run_index(run), b = info->run_index(other);
    ASSERT_TRUE(a >= 0 && b >= 0) << run << ", " << other;
    for (const auto& [layer, kv_head] : info->all_heads())
      EXPECT_EQ(recording->trace(a, layer, kv_head).evicted_at,
                recording->trace(b, layer, kv_head).evicted_at)
          << file << ": " << run << ", layer " << layer << ", KV head " << kv_head;
  }

  ScratchFolder folder_;
};

TEST_F(PythonPolicyCommand, KeepsWhatTheProgramsOwnKeeps) {
  for (const char* dtype : {"float32", "bfloat16"})
    for (const char* schedule : {"layer", "block"}) {
      std::vector<std::string> more{"--dtype", dtype, "--schedule", schedule, "--force"};
      for (const char* policy : {"manifold", "cur", "h2o", "sink"}) {
        more.insert(more.end(), {"--policy", policy});
        more.insert(more.end(), {"--policy", named(policy)});
      }
      const CliResult result = run_cli(capture("r.h5", more));
      ASSERT_EQ(result.status, 0) << result.err;
      for (const char* policy : {"manifold", "cur", "h2o", "sink"})
        expect_alike("r.h5", policy, std::string(policy) + "-2");
    }
}

TEST_F(PythonPolicyCommand, ReplaysAsTheProgramsOwn) {
  ASSERT_EQ(run_cli(capture("r.h5", {"--policy", "none"})).status, 0);
  const CliResult result = run_cli({"replay", path("r.h5"), "--policy", "cur", "--policy", named("cur"),
                                    "--policy", "h2o", "--policy", named("h2o"), "--budget", "40", "--block",
                                    "32", "--quiet", "--out", path("replayed.h5")});
  ASSERT_EQ(result.status, 0) << result.err;
  expect_alike("replayed.h5", "cur", "cur-2");
  expect_alike("replayed.h5", "h2o", "h2o-2");
  const auto recording = recording::open_recording(path("replayed.h5"));
  const auto& run = recording->info()->runs[recording->info()->run_index("h2o-2")];
  EXPECT_TRUE(run.plan.oracle) << "it reads attention";
  EXPECT_EQ(run.plan.policy, "python");
  EXPECT_THAT(run.plan.parameters,
              AllOf(HasSubstr("mine.py"), HasSubstr("\"function\":\"h2o\""), HasSubstr("sha256")));
}

// What is recorded of a policy is read again, and the policy is not.
TEST_F(PythonPolicyCommand, IsNotRunByWhoReadsTheRecording) {
  ASSERT_EQ(run_cli(capture("r.h5", {"--policy", "none", "--policy", named("manifold")})).status, 0);
  std::filesystem::remove(path("mine.py"));
  EXPECT_EQ(run_cli({"analyze", path("r.h5"), "--quiet"}).status, 0);
  EXPECT_EQ(run_cli({"export", path("r.h5"), "--quiet", "--out", path("f.h5")}).status, 0);
  const CliResult story = run_cli({"inspect", path("r.h5"), "--run", "manifold", "--token", "100"});
  EXPECT_EQ(story.status, 0) << story.err;
  EXPECT_THAT(story.out, HasSubstr("the policy python is not known here"));
}

// The example of the documents is the file that their commands run.
TEST_F(PythonPolicyCommand, IsDocumentedByItsFile) {
  const std::string source = read_file(KEYSCOPE_SOURCE_DIR "/assets/policies/outlying.py");
  for (const char* page : {"/docs/capture.md", "/README.md"})
    EXPECT_THAT(read_file(std::string(KEYSCOPE_SOURCE_DIR) + page), HasSubstr("```py\n" + source + "```\n"))
        << page;
}

TEST_F(PythonPolicyCommand, FailsInOneSentence) {
  const CliResult failed = run_cli(capture("r.h5", {"--policy", named("fails")}));
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("policy fails, layer 0, KV head"), HasSubstr("a score per row")));
  EXPECT_EQ(std::ranges::count(failed.err, '\n'), 1) << failed.err;
  EXPECT_FALSE(std::filesystem::exists(path("r.h5"))) << "what failed gets no name";
  const CliResult refused = run_cli(capture("q.h5", {"--policy", named("absent")}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("no function 'absent'"));
}

TEST_F(PythonPolicyCommand, AHungOneEndsByAnInterrupt) {
  CliProcess process(capture("r.h5", {"--policy", named("hangs")}), folder_.path());
  wait_for_file(folder_.file("hanging"));
  EXPECT_EQ(process.end_by(SIGINT), 130);
}

TEST_F(PythonPolicyCommand, AHungOneEndsWithAProgramThatIsKilled) {
  CliProcess process(capture("r.h5", {"--policy", named("hangs")}), folder_.path());
  wait_for_file(folder_.file("hanging"));
  const std::filesystem::path policy = "/proc/" + read_file(folder_.file("hanging"));
  EXPECT_TRUE(is_running(policy));
  EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
  for (int i = 0; i < 300 && is_running(policy); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(is_running(policy));
}

TEST_F(PythonPolicyCommand, RunsUnderALimitOfFileSizes) {
  const figures::SmallDisk limited(rlim_t{1} << 30);
  const CliResult result = run_cli(capture("r.h5", {"--policy", "manifold", "--policy", named("manifold")}));
  ASSERT_EQ(result.status, 0) << result.err;
  expect_alike("r.h5", "manifold", "manifold-2");
}

}  // namespace
}  // namespace keyscope::test
