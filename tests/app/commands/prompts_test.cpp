#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {

// `keyscope prompts`: lengths of a file's prompts, and what budgets keep of them.

namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class Prompts : public ::testing::Test {
 protected:
  Prompts() {
    std::ofstream file(path("p.jsonl"));
    file << R"({"ids": [1, 80, 147, 20]})" << '\n' << R"({"ids": [1, 80]})" << '\n';
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  CliResult run(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"prompts", path("p.jsonl"), "--model", kDemoModel};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }

  ScratchFolder folder_;
};

TEST_F(Prompts, JsonHasLengthsHistogramAndRatios) {
  const CliResult result = run({"--budget", "2", "--budget", "4", "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json report = parse_json(result.out);
  EXPECT_EQ(report["lengths"], Json({4, 2}));
  EXPECT_EQ(report["budgets"][0], Json({{"budget", 2}, {"mean_compression_ratio", 0.75}}));
  EXPECT_EQ(report["budgets"][1]["mean_compression_ratio"], 1.0);
  EXPECT_EQ(report["histogram"].size(), 3U) << "2, 3 and 4 tokens";
  EXPECT_EQ(report["median"], 3.0);
}

TEST_F(Prompts, TheTableSaysTheSame) {
  const CliResult result = run({"--budget", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 prompts: 2 to 4 tokens, mean 3"));
  EXPECT_THAT(result.out, HasSubstr("       2  0.750"));
}

TEST_F(Prompts, TheFigureIsDrawnOrExported) {
  for (const char* name : {"l.png", "l.svg", "l.h5"}) {
    const CliResult result = run({"--budget", "3", "--out", path(name)});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_GT(std::filesystem::file_size(path(name)), 1000U) << name;
  }
  EXPECT_EQ(run({"--out", path("l.png")}).status, 1) << "kept unless replaced";
  EXPECT_EQ(run({"--out", path("l.png"), "--force"}).status, 0);
  EXPECT_EQ(run({"--out", path("l.jpeg")}).status, 2);
}

TEST_F(Prompts, WhatIsWrongIsSaid) {
  EXPECT_EQ(run({"--budget", "0"}).status, 2);
  std::ofstream(path("p.jsonl")) << R"({"ids": []})" << '\n';
  const CliResult result = run({});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("line 1"));
}

}  // namespace

// --chat and --system: which prompts they make, and where they are refused.

namespace {

using ::testing::AllOf;
namespace fs = std::filesystem;

const fs::path kModel = fs::path(KEYSCOPE_SOURCE_DIR) / "assets/demo_model";

// The demo model with a chat template.
class Chat : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
      fs::create_symlink(kModel / name, folder_.file(name));
    set_template(
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
        "%}");
  }
  void set_template(const std::string& text) { std::ofstream(folder_.file("chat_template.jinja")) << text; }

  CliResult run(std::vector<std::string> arguments, const std::string& input = "") const {
    arguments.insert(arguments.begin() + 1, {"--model", folder_.path().string()});
    return run_cli(arguments, input);
  }
  std::string ids(const std::string& text) const { return run({"tokenize", "--prompt", text}).out; }

  const ScratchFolder folder_;
  const std::string user_ = "<|im_start|>user\nWhich key?<|im_end|>\n<|im_start|>assistant\n";
  const std::string system_ = "<|im_start|>system\nBe brief.<|im_end|>\n";
};

TEST_F(Chat, TokenizeReadsTheTextAsTheUsersTurn) {
  const CliResult user = run({"tokenize", "--prompt", "Which key?", "--chat"});
  EXPECT_EQ(user.status, 0) << user.err;
  EXPECT_EQ(user.out, ids(user_));
  EXPECT_EQ(run({"tokenize", "--prompt", "Which key?", "--chat", "--system", "Be brief."}).out,
            ids(system_ + user_));
  EXPECT_EQ(run({"tokenize", "--prompt-file", "-", "--chat"}, "Which key?").out, ids(user_));
  EXPECT_EQ(run({"tokenize", "--lines", "--chat"}, "\"Which key?\"\n\"Which key?\"\n").out,
            ids(user_) + ids(user_));
}

TEST_F(Chat, CaptureTakesThePromptInTheTemplate) {
  const auto n_ids = parse_json(ids(system_ + user_)).size();
  const CliResult result =
      run({"capture", "--prompt", "Which key?", "--chat", "--system", "Be brief.", "--dry-run"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr(fmt::format("\n{} prompt tokens", n_ids)));
}

// Rows, percent and a fraction are written one way everywhere; 12 tokens, of which a quarter are 3.
TEST(Budgets, AreWrittenOneWay) {
  const ScratchFolder folder;
  std::ofstream(folder.file("ids.json")) << "[1, 80, 147, 5, 6, 7, 8, 9, 10, 11, 12, 13]";
  const std::vector<std::string> prompt{"--prompt-ids", folder.file("ids.json").string(), "--block", "4"};
  const auto with = [&](std::vector<std::string> arguments, const std::string& budget) {
    arguments.insert(arguments.end(),
                     {"--policy", "keydiff", "--budget", budget, "--block", "4", "--quiet", "--force"});
    return run_cli(arguments);
  };
  const std::string recording = folder.file("a.h5").string(), out = folder.file("b.h5").string();
  for (const std::string budget : {"3", "25%", "0.25"}) {
    SCOPED_TRACE(budget);
    ASSERT_EQ(with({"capture", "--model", kModel.string(), "--prompt-ids", prompt[1], "--policy", "none",
                    "--out", recording},
                   budget)
                  .status,
              0);
    EXPECT_EQ(parse_json(run_cli({"inspect", recording, "--json", "-"}).out)["runs"][1]["budget"], 3);
    const CliResult replayed = with({"replay", recording, "--out", out, "--json", "-"}, budget);
    EXPECT_EQ(parse_json(replayed.out)["runs"][0]["budget"], 3) << replayed.err;
    const CliResult timed =
        run_cli({"bench", "prefill", "--model", kModel.string(), "--prompt-ids", prompt[1], "--policy",
                 "keydiff", "--budget", budget, "--block", "4", "--repeat", "1", "--quiet", "--json", "-"});
    EXPECT_EQ(parse_json(timed.out)["rows"][0]["budget"], 3) << timed.err;
  }
  for (const std::string budget : {"0", "-1", "101%", "much"}) {
    EXPECT_EQ(
        with({"capture", "--model", kModel.string(), "--prompt-ids", prompt[1], "--dry-run"}, budget).status,
        2);
    EXPECT_EQ(with({"replay", recording, "--dry-run"}, budget).status, 2);
    EXPECT_EQ(with({"view", recording, "--model", kModel.string()}, budget).status, 2);
  }
}

// Token ids need no tokenizer: none that is there, and none that is supported.
TEST(PromptIds, NeedNoTokenizer) {
  const ScratchFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    fs::create_symlink(kModel / name, folder.file(name));
  std::ofstream(folder.file("ids.json")) << "[1, 80, 147, 5]";
  const std::string model = folder.path().string(), ids = folder.file("ids.json").string();
  for (const bool unsupported : {false, true}) {
    if (unsupported) std::ofstream(folder.file("tokenizer.json")) << R"({"model": {"type": "WordPiece"}})";
    const std::string file = folder.file(unsupported ? "b.h5" : "a.h5").string();
    const CliResult captured =
        run_cli({"capture", "--model", model, "--prompt-ids", ids, "--generate", "2", "--out", file});
    ASSERT_EQ(captured.status, 0) << captured.err;
    EXPECT_EQ(captured.err.find("WordPiece") != std::string::npos, unsupported) << captured.err;
    const CliResult shown = run_cli({"inspect", file});
    EXPECT_THAT(shown.out, HasSubstr("⟨1⟩⟨80⟩⟨147⟩⟨5⟩"));
    EXPECT_EQ(run_cli({"analyze", file, "--no-bounds", "--quiet"}).status, 0);
    const CliResult text = run_cli({"capture", "--model", model, "--prompt", "x", "--dry-run"});
    EXPECT_EQ(text.status, 1);
    EXPECT_THAT(text.err, AllOf(HasSubstr("tokenizer.json"), HasSubstr("--prompt-ids")));
  }
}

TEST_F(Chat, AFolderWithoutATemplateSaysWhatWasLookedFor) {
  for (const char* command : {"capture", "tokenize", "view"}) {
    std::vector<std::string> arguments{command, "--model", kModel.string(), "--prompt", "x", "--chat"};
    if (arguments[0] == "capture") arguments.push_back("--dry-run");
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 1) << command;
    EXPECT_THAT(result.err, AllOf(HasSubstr(kModel.string()), HasSubstr("chat_template.jinja"),
                                  HasSubstr("tokenizer_config.json"), HasSubstr("without --chat")));
  }
}

TEST_F(Chat, ATemplateThatIsNoneSaysWhere) {
  set_template("a\n{{ messages[-1].content ");
  const CliResult result = run({"capture", "--prompt", "x", "--chat", "--dry-run"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("chat_template.jinja: line 2: "), HasSubstr("expected '}}'")));
}

TEST_F(Chat, AConversationOfMessages) {
  std::ofstream(folder_.file("talk.json")) << R"([{"role": "system", "content": "Be brief."},
      {"role": "user", "content": "Which key?"}])";
  const std::string file = folder_.file("talk.json").string();
  EXPECT_EQ(run({"tokenize", "--messages", file}).out, ids(system_ + user_));
  const CliResult request = run({"tokenize", "--messages", "-"},
                                R"({"messages": [{"role": "user", "content": "Which key?"}],
                                    "add_generation_prompt": false})");
  EXPECT_EQ(request.out, ids("<|im_start|>user\nWhich key?<|im_end|>\n")) << request.err;
  const auto n_ids = parse_json(ids(system_ + user_)).size();
  EXPECT_THAT(run({"capture", "--messages", file, "--dry-run"}).err,
              HasSubstr(fmt::format("\n{} prompt tokens", n_ids)));
  const CliResult none = run({"tokenize", "--messages", "-"}, "{}");
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("standard input: found no messages"), HasSubstr("\"role\"")));
  EXPECT_EQ(run({"tokenize", "--messages", file, "--prompt", "x"}).status, 2);
}

TEST_F(Chat, ASystemTextWithoutAPlaceIsWrongUsage) {
  set_template(
      "{% for message in messages %}{% if (message['role'] == 'user') %}{{'<|user|>\n' + message['content'] "
      "+ "
      "'<|end|>\n<|assistant|>\n'}}{% endif %}{% endfor %}");
  for (const char* command : {"capture", "tokenize", "view"}) {
    std::vector<std::string> arguments{command, "--prompt", "x", "--chat", "--system", "Be brief."};
    if (arguments[0] == "capture") arguments.push_back("--dry-run");
    const CliResult result = run(arguments);
    EXPECT_EQ(result.status, 2) << command << result.err;
    EXPECT_THAT(result.err, HasSubstr("--system")) << command;
  }
}

TEST_F(Chat, WhatDoesNotGoTogetherIsWrongUsage) {
  const std::vector<std::vector<std::string>> wrong{
      {"capture", "--prompt", "x", "--system", "s", "--dry-run"},
      {"capture", "--prompt-ids", "ids.json", "--chat", "--dry-run"},
      {"tokenize", "--prompt", "x", "--system", "s"},
      {"tokenize", "--prompt", "x", "--chat", "--special"},
      {"tokenize", "--prompt", "[1]", "--chat", "--decode"},
      {"view", "--prompt", "x", "--system", "s"},
  };
  for (const auto& arguments : wrong) {
    const CliResult result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments[0] << result.err;
    EXPECT_THAT(result.err, HasSubstr("--chat"));
  }
  const CliResult view = run_cli({"view", "a.h5", "--chat"});
  EXPECT_EQ(view.status, 2);
  EXPECT_THAT(view.err, AllOf(HasSubstr("--chat"), HasSubstr("--model")));
}

TEST_F(Chat, ASystemTextThatIsNoTextIsRefused) {
  const CliResult result = run({"tokenize", "--prompt", "x", "--chat", "--system", "a\xff"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--system"), HasSubstr("byte 1")));
}

}  // namespace

}  // namespace keyscope::test
