// Nothing that the user made is lost, and what cannot be written is said before the work.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/small_disk.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

class Files : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name).string(); }

  std::string record(const std::string& name) const {
    const CliResult result =
        run_cli({"capture", "--model", kDemoModel, "--prompt", "The magic number is 12.", "--policy",
                 "keydiff", "--budget", "4", "--block", "4", "--out", file(name)});
    EXPECT_EQ(result.status, 0) << result.err;
    return file(name);
  }

  ScratchFolder folder_;
};

TEST_F(Files, JsonLeavesAPartThatIsNotItsOwn) {
  const std::string recording = record("a.h5");
  fs::copy_file(recording, file("b.h5.part"));
  const std::string before = read_file(file("b.h5.part"));
  EXPECT_EQ(run_cli({"analyze", "--quiet", recording, "--json", file("b.h5")}).status, 0);
  EXPECT_EQ(read_file(file("b.h5.part")), before);
}

// Under any of its names, whatever reads it, --force or not.
TEST_F(Files, NothingReplacesWhatItIsMadeOf) {
  const std::string recording = record("a.h5"), text = file("text.txt"), model = file("model");
  write(text, "The magic number is 12.");
  fs::copy(kDemoModel, model);
  fs::create_hard_link(recording, file("hard.h5"));
  fs::create_symlink(recording, file("soft.h5"));
  const std::string filters = file("filters.json"), config = model + "/config.json";
  write(filters, "{}");
  const std::vector<std::vector<std::string>> commands{
      {"analyze", recording, "--json", recording},
      {"analyze", file("soft.h5"), "--csv", file("hard.h5")},
      {"inspect", recording + "::entry", "--json", recording},
      {"inspect", model, "--json", config},
      {"compare", recording, file("soft.h5"), "--json", file("hard.h5")},
      {"figure", recording, "keyspace", "--out", file("hard.h5")},
      {"export", file("hard.h5"), "--out", recording},
      {"calibrate", "qfilters", recording, "--out", recording},
      {"view", recording, "--screenshot", recording},
      {"capture", "--model", model, "--prompt", "x", "--policy", "none", "--out",
       model + "/model.safetensors"},
      {"capture", "--model", model, "--prompt-file", text, "--policy", "none", "--out", text},
      {"replay", recording, "--policy", "qfilters:file=" + filters, "--budget", "4", "--out", file("b.h5"),
       "--json", filters},
      {"eval", "perplexity", "--model", model, "--policy", "sink", "--budget", "4", "--length", "8", "--text",
       text, "--json", text},
      {"eval", "niah", "--model", model, "--policy", "sink", "--budget", "4", "--length", "64", "--keys",
       text, "--json", text}};
  const auto all = [&] {
    return read_file(recording) + read_file(text) + read_file(filters) + read_file(config);
  };
  const std::string before = all();
  for (std::vector<std::string> words : commands) {
    words.emplace_back("--force");
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 2) << words.front();
    EXPECT_THAT(result.err, HasSubstr("that is a file that is read"));
    EXPECT_EQ(all(), before) << words.front();
  }
}

// The next file that is opened must not be what is written to as standard output.
TEST_F(Files, WhereStandardOutputIsClosedNothingIsWrittenIntoAnotherFile) {
  const std::vector<std::string> words{"eval",     "niah", "--model",  kDemoModel, "--policy", "keydiff",
                                       "--budget", "25%",  "--length", "64",       "--depth",  "50",
                                       "--block",  "16",   "--quiet",  "--out",    file("out")};
  ASSERT_EQ(run_cli(words).status, 0);
  const std::string lines = read_file(file("out/examples.jsonl"));
  std::vector<std::string> with_json = words;
  with_json.insert(with_json.end(), {"--json", "-"});
  std::fflush(stdout);
  const int stdout_before = dup(STDOUT_FILENO);
  close(STDOUT_FILENO);
  const int status = CliProcess(with_json).end_by(0);
  dup2(stdout_before, STDOUT_FILENO);
  close(stdout_before);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(read_file(file("out/examples.jsonl")), lines);
}

TEST_F(Files, AScreenshotDoesNotReplaceAPicture) {
  const std::string recording = record("a.h5");
  write(file("keep.png"), "precious");
  const CliResult result = run_cli({"view", recording, "--screenshot", file("keep.png")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--force"));
  EXPECT_EQ(read_file(file("keep.png")), "precious");
}

TEST_F(Files, APipeIsNotReplaced) {
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  const CliResult result =
      run_cli({"capture", "--model", kDemoModel, "--prompt", "Hi", "--force", "--out", file("pipe")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("no regular file"));
  EXPECT_TRUE(fs::is_fifo(file("pipe")));
}

TEST_F(Files, ADryRunSaysWhatWouldFail) {
  write(file("a.h5"), "precious");
  const CliResult result =
      run_cli({"capture", "--model", kDemoModel, "--prompt", "Hi", "--dry-run", "--out", file("a.h5")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("exists already"));
}

// Of two outputs the first fits the disk and the second does not: neither is there, and older ones stay.
TEST_F(Files, OutputsOfOneCommandAreAllThereOrNone) {
  const std::string recording = record("a.h5");
  const std::vector<std::string> words{"analyze",     recording, "--no-bounds",  "--quiet", "--csv",
                                       file("a.csv"), "--json",  file("a.json"), "--force"};
  ASSERT_EQ(run_cli(words).status, 0);
  const auto size = fs::file_size(file("a.csv"));
  ASSERT_LT(size, fs::file_size(file("a.json")));
  write(file("a.csv"), "older");
  fs::remove(file("a.json"));
  CliResult result;
  {
    const figures::SmallDisk disk(size);
    result = run_cli(words);
  }
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("a.json: could not be written"));
  EXPECT_EQ(read_file(file("a.csv")), "older");
  EXPECT_EQ(std::distance(fs::directory_iterator(file("")), fs::directory_iterator()), 2) << "nothing else";
}

// With --force the second would replace the first without a word.
TEST_F(Files, ADemoWhoseFiguresCannotBeWrittenLeavesTheOlderOne) {
  fs::create_directories(file("demo/ablation.png"));
  write(file("demo/demo.h5"), "older");
  write(file("demo/attention.png"), "older");
  const CliResult result = run_cli({"demo", "--no-window", "--quiet", "--out", file("demo")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::AllOf(HasSubstr("ablation.png: is a folder"),
                                           HasSubstr("the recording is in " + file("demo/demo.h5.part"))));
  EXPECT_EQ(read_file(file("demo/demo.h5")), "older");
  EXPECT_EQ(read_file(file("demo/attention.png")), "older");
  EXPECT_EQ(run_cli({"inspect", file("demo/demo.h5.part")}).status, 0);
}

TEST_F(Files, NoOutputReplacesAnother) {
  const std::string recording = record("a.h5"), prompts = file("prompts.jsonl");
  write(prompts, "{\"prompt\": \"Once upon a time\"}\n");
  fs::create_directory(file("d"));
  fs::create_directory_symlink("d", file("link"));
  const std::vector<std::vector<std::string>> commands{
      {"analyze", recording, "--no-bounds", "--quiet", "--json", file("x"), "--csv", file("d/../x")},
      {"analyze", recording, "--no-bounds", "--quiet", "--json", file("d/x"), "--csv", file("link/x")},
      {"diff", recording, "--run", "none", "--run", "keydiff", "--json", file("x"), "--csv", file("x")},
      {"prompts", prompts, "--model", kDemoModel, "--out", file("x.svg"), "--json", file("x.svg")},
      {"replay", recording, "--policy", "sink", "--budget", "4", "--out", file("x"), "--json",
       file("d/../x")},
      {"bench", "score", "--out", file("x.svg"), "--json", file("d/../x.svg")},
      {"reproduce", KEYSCOPE_SOURCE_DIR "/experiments/cliff-eviction.json", "--model", kDemoModel, "--length",
       "256", "--samples", "5", "--out", file("out"), "--json", file("out/results.json")},
      {"sweep", "merge", file("study"), "--out", file("x.h5"), "--parquet", file("x.h5")},
      {"sweep", "merge", file("study"), "--out", file("x.h5"), "--csv", file("x.h5")}};
  write(file("study.json"), R"({"name": "s", "models": [")" + std::string(kDemoModel) +
                                R"("], "jobs": [{"command": "eval niah", "length": 200, "samples": 1}]})");
  ASSERT_EQ(run_cli({"sweep", "plan", file("study.json"), "--out", file("study")}).status, 0);
  for (std::vector<std::string> words : commands) {
    words.emplace_back("--force");
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 2) << words.front() << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("would be written twice")) << words.front();
    for (const char* name : {"x", "x.svg", "x.h5", "d/x", "out"})
      EXPECT_FALSE(fs::exists(file(name))) << name;
  }
}

// Whose stacks are as large as this are threads that cannot be started.
TEST_F(Files, WhereNoThreadCanBeStartedItSaysSo) {
  rlimit before{};
  getrlimit(RLIMIT_STACK, &before);
  const rlimit large{rlim_t{1} << 46, before.rlim_max};
  if (setrlimit(RLIMIT_STACK, &large) != 0) GTEST_SKIP() << "the stack's limit cannot be raised so far";
  const CliResult result = run_cli({"tokenize", "--model", kDemoModel, "--prompt", "Hi"});
  setrlimit(RLIMIT_STACK, &before);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::StartsWith("keyscope: no thread can be started: "));
}

TEST_F(Files, WhereLibTorchHasNoRoomItSaysSo) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer takes more addresses than the limit";
#else
  const std::string said = file("said");
  const int raw =
      std::system(fmt::format("ulimit -v 600000; {} capture --model {} --prompt Hi --out {} 2> {}",
                              KEYSCOPE_EXECUTABLE, kDemoModel, file("a.h5"), said)
                      .c_str());
  EXPECT_EQ(WEXITSTATUS(raw), 1);
  EXPECT_THAT(read_file(said), HasSubstr("keyscope: what computes models cannot be opened: "));
#endif
}

TEST_F(Files, AFullOutputIsAnError) {
  const std::string recording = record("a.h5");
  for (const std::string command : {"analyze", "inspect"}) {
    const int raw = std::system(
        (std::string(KEYSCOPE_EXECUTABLE) + " " + command + " " + recording + " >/dev/full 2>/dev/null")
            .c_str());
    EXPECT_EQ(WEXITSTATUS(raw), 1) << command;
  }
}

}  // namespace
}  // namespace keyscope::test
