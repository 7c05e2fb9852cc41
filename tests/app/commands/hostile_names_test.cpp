// Names and texts that would make a terminal do something: whatever a command says about them, the terminal
// only shows it.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Red, a window title, a control sequence of one byte, a backspace, a deletion, and what turns text round.
const std::string kHostile =
    "\x1B[31m\x1B]0;mine\x07\xC2\x9B"
    "1m\b\x7F\u202E\u2066";

class HostileNames : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = folder_.file("model" + kHostile);
    fs::create_directory(model_);
    for (const auto& entry : fs::directory_iterator(kDemoModel))
      fs::create_symlink(entry.path(), model_ / entry.path().filename());
    prompt_ =
        write("prompt" + kHostile + ".txt", "The key of locker 7 is 1234. " + kHostile + " What is it?");
    bad_ = write("bad" + kHostile, "{\"" + kHostile);
    recording_ = folder_.file("recording" + kHostile + ".h5");
    run({"capture", "--model", model_, "--prompt-file", prompt_, "--policy", "none", "--policy", "keydiff",
         "--budget", "20%", "--block", "16", "--generate", "2", "--out", recording_});
    ASSERT_TRUE(fs::exists(recording_));
  }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_.file(name);
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::string out(const std::string& name) const { return folder_.file(name + kHostile).string(); }

  // Runs a command and sees that nothing it says moves a terminal.
  CliResult run(const Words& words) {
    const CliResult result = run_cli(words, "", folder_.path());
    for (const std::string* said : {&result.out, &result.err})
      EXPECT_EQ(terminal_text(*said), *said) << terminal_text(quote_words(words));
    run_.insert(words.front());
    return result;
  }

  // What cannot be done, and is said to be so in words that name it.
  void refused(const Words& words) {
    const CliResult result = run(words);
    EXPECT_TRUE(result.status == 1 || result.status == 2) << terminal_text(quote_words(words));
    EXPECT_THAT(result.err, ::testing::StartsWith("keyscope: ")) << terminal_text(quote_words(words));
    // What is missing, or does not go together, would end it before the name is looked at.
    EXPECT_TRUE(names_it(result.err)) << result.err << terminal_text(quote_words(words));
  }

  // As it stands in a path, or quoted as a text.
  static bool names_it(const std::string& said) {
    const std::string quoted = json_text(nlohmann::json(kHostile));
    return said.find(terminal_text(kHostile)) != std::string::npos ||
           said.find(terminal_text(quoted.substr(1, quoted.size() - 2))) != std::string::npos;
  }

  ScratchFolder folder_;
  fs::path model_;
  std::string prompt_, bad_, recording_;
  std::set<std::string> run_;
};

TEST_F(HostileNames, AreShownAndNotObeyed) {
  const std::string absent = out("absent");
  for (const char* command : {"analyze", "inspect"}) EXPECT_EQ(run({command, recording_}).status, 0);
  EXPECT_EQ(run({"inspect", model_}).status, 0);
  EXPECT_EQ(run({"compare", recording_, recording_}).status, 0);
  EXPECT_EQ(run({"diff", recording_, "--run", "none", "--run", "keydiff"}).status, 0);
  EXPECT_EQ(run({"export", recording_, "--out", out("figures"), "--figure", "head-map"}).status, 0);
  EXPECT_EQ(run({"figure", recording_, "head-map", "--out", out("map") + ".svg"}).status, 0);
  EXPECT_EQ(run({"replay", recording_, "--policy", "sink", "--budget", "10%", "--out", out("replay")}).status,
            0);
  EXPECT_EQ(run({"tokenize", "--model", model_, "--prompt", kHostile}).status, 0);
  EXPECT_EQ(run({"capture", "--model", model_, "--prompt", kHostile, "--dry-run"}).status, 0);
  EXPECT_EQ(run({"demo", "--out", out("demo"), "--no-window"}).status, 0);
  EXPECT_EQ(run({"eval", "phonebook", "--model", model_, "--entries", "3", "--samples", "1", "--policy",
                 "keydiff", "--budget", "50%", "--out", out("eval")})
                .status,
            0);
  for (const std::string& file : {absent, bad_}) {
    for (const char* command : {"analyze", "inspect"}) refused({command, file});
    EXPECT_EQ(run({"view", file}).status, 1);  // without a display it is not looked at
    refused({"diff", file, "--run", "none", "--run", "keydiff"});
    refused({"export", file, "--figure", "head-map", "--out", folder_.file("plain").string()});
  }
  refused({"compare", bad_, recording_});
  refused({"figure", bad_, "head-map", "--out", out("bad") + ".svg"});
  refused({"figure", recording_, kHostile, "--out", folder_.file("plain.svg").string()});
  refused({"diff", recording_, "--run", "none", "--run", kHostile});
  refused({"replay", bad_, "--policy", "sink", "--budget", "10%", "--dry-run"});
  refused({"calibrate", "qfilters", bad_, "--out", out("filters")});
  const std::string plain = folder_.file("plain.h5");
  for (const char* option : {"--policy", "--budget", "--layers", "--budget-file"})
    refused({"capture", "--model", kDemoModel, "--prompt", "x", "--out", plain, option, kHostile});
  refused({"capture", "--model", kDemoModel, "--prompt-file", absent, "--out", plain});
  refused({"capture", "--model", absent, "--prompt", "x", "--out", plain});
  refused({"capture", "--model", kDemoModel, "--prompt", "x", "--out", plain, "--policy",
           "keydiff:anchor=" + kHostile});
  refused({"capture", "--model", kDemoModel, "--prompt", "x", "--out", absent + "/x.h5"});
  refused({"capture", "--model", kDemoModel, "--prompt-ids", bad_, "--out", plain});
  refused({"tokenize", "--model", absent, "--prompt", "x"});
  refused({"prompts", bad_, "--model", kDemoModel});
  for (const Words& words : {Words{kHostile}, {"--" + kHostile}, {"eval", kHostile}})
    EXPECT_EQ(run(words).status, 2);
  refused({"eval", "ruler", "--model", kDemoModel, "--data", bad_, "--out", plain});
  refused({"grid", "--model", kDemoModel, "--task", "niah", "--scorer", kHostile, "--out", plain});
  refused({"report", "--model", absent, "--task", "niah", "--policy", "sink", "--out", plain});
  refused({"validate", "--model", absent, "--prompts", prompt_, "--out", plain});
  refused({"reproduce", bad_, "--model", kDemoModel});
  refused({"sweep", "plan", bad_, "--out", plain});
  for (const char* step : {"status", "run"}) refused({"sweep", step, absent});
  refused({"sweep", "merge", absent, "--out", plain});
  refused({"bench", "score", "--policy", kHostile});
  // Every command was among them.
  const std::string help = run({"--help"}).out;
  const std::string commands = help.substr(help.find("Subcommands:"));
  for (std::size_t line = commands.find("\n  "); line != std::string::npos;
       line = commands.find("\n  ", line + 1)) {
    const std::string name = commands.substr(line + 3, commands.find(' ', line + 3) - line - 3);
    EXPECT_TRUE(name.empty() || run_.contains(name)) << name;
  }
}

// What a model's own files say, wherever a message shows it.
TEST_F(HostileNames, OfAModelsFilesAreShownAndNotObeyed) {
  const std::string quoted = json_text(nlohmann::json(kHostile));
  const struct {
    const char* file;
    std::string text;
  } kBroken[]{{"config.json", "{\"model_type\": " + quoted + "}"},
              {"config.json", "{\"model_type\": \"llama\", \"hidden_size\": " + quoted + "}"},
              {"config.json", "{" + kHostile},
              {"tokenizer.json", "{\"model\": {\"type\": " + quoted + "}}"},
              {"tokenizer_config.json", "{\"chat_template\": \"{{ " + kHostile + "\"}"},
              {"model.safetensors.index.json", "{\"weight_map\": {" + quoted + ": " + quoted + "}}"}};
  for (const auto& [file, text] : kBroken) {
    const fs::path broken = folder_.file("broken");
    fs::create_directory(broken);
    for (const auto& entry : fs::directory_iterator(kDemoModel)) {
      const bool weights = entry.path().extension() == ".safetensors";
      if (weights && std::string_view(file).starts_with("model.")) continue;
      fs::create_symlink(entry.path(), broken / entry.path().filename());
    }
    fs::remove(broken / file);
    std::ofstream(broken / file, std::ios::binary) << text;
    run({"capture", "--model", broken.string(), "--prompt", "x", "--chat"});
    run({"inspect", broken.string()});
    fs::remove_all(broken);
  }
}

// A list as long as a file makes it is cut.
TEST_F(HostileNames, LongListsAreCut) {
  const std::string many = folder_.file("many.h5");
  Words words{"capture", "--model", kDemoModel, "--prompt", "one two three", "--budget", "3", "--out", many};
  for (int i = 0; i < 60; ++i) words.insert(words.end(), {"--policy", "sink:first=" + std::to_string(i)});
  ASSERT_EQ(run(words).status, 0);
  const CliResult result = run({"figure", many, "head-map", "--run", "absent", "--out", out("map") + ".svg"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, ::testing::HasSubstr("… and 28 more"));
}

TEST_F(HostileNames, LongOnesAreCut) {
  std::string name;
  for (int i = 0; i < 20000; ++i) name += "é";
  const CliResult result =
      run({"capture", "--model", kDemoModel, "--prompt", "one", "--policy", name, "--out", out("no")});
  EXPECT_EQ(result.status, 2);
  EXPECT_LT(result.err.size(), 3000);
  EXPECT_THAT(result.err,
              ::testing::AllOf(::testing::StartsWith("keyscope: "), ::testing::HasSubstr("é … (40,")));
  EXPECT_EQ(result.err.find("\xEF\xBF\xBD"), std::string::npos) << "half a character became U+FFFD";
}

}  // namespace
}  // namespace keyscope::test
