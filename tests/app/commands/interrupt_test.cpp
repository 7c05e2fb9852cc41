// Ctrl-C and a kill in the middle of a capture: what was recorded stays readable.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/app/commands/cli_run.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel = std::string(KEYSCOPE_SOURCE_DIR) + "/assets/demo_model";

// Starts a capture that takes long enough to be interrupted, and returns once its file is being written.
pid_t start_capture(const fs::path& out) {
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<std::string> words{KEYSCOPE_EXECUTABLE, "capture",
                                         "--model",           kModel,
                                         "--prompt-ids",      (out.parent_path() / "ids.json").string(),
                                         "--policy",          "none",
                                         "--policy",          "keydiff",
                                         "--policy",          "sink",
                                         "--budget",          "512",
                                         "--block",           "8",
                                         "--quiet",           "--out",
                                         out.string()};
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(KEYSCOPE_EXECUTABLE, arguments.data());
    _exit(127);
  }
  for (int i = 0; i < 600 && !fs::exists(out.string() + ".part"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return child;
}

void write_prompt(const fs::path& folder) {
  nlohmann::json ids = nlohmann::json::array();
  for (int i = 0; i < 4000; ++i) ids.push_back(256 + i % 700);
  std::ofstream(folder / "ids.json") << ids.dump();
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Interrupt, CtrlCKeepsWhatWasRecorded) {
  const ScratchFolder folder;
  write_prompt(folder.path());
  const fs::path out = folder.path() / "cut.h5";
  const pid_t child = start_capture(out);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  kill(child, SIGINT);
  EXPECT_EQ(wait_for(child), 130);
  ASSERT_TRUE(fs::exists(out));
  EXPECT_FALSE(fs::exists(out.string() + ".part"));
  const CliResult result = run_cli({"analyze", out.string(), "--no-bounds", "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["complete"], false);
}

TEST(Interrupt, AKilledCapturesPartFileOpens) {
  const ScratchFolder folder;
  write_prompt(folder.path());
  const fs::path out = folder.path() / "killed.h5";
  const pid_t child = start_capture(out);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(child, SIGKILL);
  wait_for(child);
  const std::string part = out.string() + ".part";
  ASSERT_TRUE(fs::exists(part));
  for (const char* command : {"inspect", "analyze"}) {
    std::vector<std::string> arguments{command, part};
    if (std::string(command) == "analyze") arguments.emplace_back("--no-bounds");
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 0) << command << ": " << result.err;
  }
}

}  // namespace
}  // namespace keyscope::test
