#include "app/commands/console.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {

// Ctrl-C and a kill in the middle of a capture: what was recorded stays readable.

namespace {

namespace fs = std::filesystem;

// A capture that takes long enough to be interrupted.
std::vector<std::string> long_capture(const fs::path& out) {
  return {"capture",  "--model",  kDemoModel,  "--prompt-ids", (out.parent_path() / "ids.json").string(),
          "--policy", "none",     "--policy",  "keydiff",      "--policy",
          "sink",     "--budget", "512",       "--block",      "8",
          "--quiet",  "--out",    out.string()};
}

void write_prompt(const fs::path& folder) {
  nlohmann::json ids = nlohmann::json::array();
  for (int i = 0; i < 4000; ++i) ids.push_back(256 + i % 700);
  std::ofstream(folder / "ids.json") << json_text(ids);
}

TEST(Interrupt, CtrlCKeepsWhatWasRecorded) {
  const ScratchFolder folder;
  write_prompt(folder.path());
  const fs::path out = folder.path() / "cut.h5";
  CliProcess process(long_capture(out));
  wait_for_file(out.string() + ".part");
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_EQ(process.end_by(SIGINT), 130);
  ASSERT_TRUE(fs::exists(out));
  EXPECT_FALSE(fs::exists(out.string() + ".part"));
  const CliResult result = run_cli({"analyze", out.string(), "--no-bounds", "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(parse_json(result.out)["complete"], false);
}

TEST(Interrupt, AKilledCapturesPartFileOpens) {
  const ScratchFolder folder;
  write_prompt(folder.path());
  const fs::path out = folder.path() / "killed.h5";
  const std::string part = out.string() + ".part";
  CliProcess process(long_capture(out));
  wait_for_file(part);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
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

namespace keyscope::commands {

namespace {

TEST(Sparkline, HeightsGoFromLowToHigh) {
  const std::array<std::optional<double>, 5> values{-1.0, -0.01, 0.01, 0.99, 1.0};
  EXPECT_EQ(sparkline(values, -1, 1), "▁▄▅██");
}

TEST(Sparkline, WhatIsOutsideTakesTheNearestEndAndWhatIsNotThereADot) {
  const std::array<std::optional<double>, 4> values{-3.0, 3.0, std::nullopt,
                                                    std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(sparkline(values, -1, 1), "▁█··");
  EXPECT_EQ(sparkline({}, -1, 1), "");
}

}  // namespace

}  // namespace keyscope::commands
