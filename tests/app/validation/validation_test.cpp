#include "app/validation/validation.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "analysis/policies/registry.hpp"
#include "app/figures/nexus.hpp"
#include "app/results/out_folder.hpp"
#include "app/validation/prompt_record.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/app/validation/made_records.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::validation {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

results::Prompt prompt_of(std::int64_t line, std::size_t n_tokens) {
  results::Prompt prompt;
  prompt.line = line;
  prompt.ids.assign(n_tokens, 1);
  return prompt;
}

class MemoryCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_.policies = default_policies();
    settings_.budget.share = 0.25;
  }

  void check(std::int64_t available) const {
    const auto where = [](const results::Prompt& prompt) {
      return "p.jsonl, line " + std::to_string(prompt.line);
    };
    check_memory(*model_, settings_, prompts_, {where, "--max-tokens"}, available);
  }

  std::shared_ptr<const capture::Model> model_ = capture::Model::load(test::kDemoModel, {});
  Settings settings_;
  std::vector<results::Prompt> prompts_{prompt_of(1, 100), prompt_of(2, 600), prompt_of(4, 300)};
};

// Rows alone, float32, of every run, layer and head: keys, values and queries.
std::int64_t row_bytes(const capture::ModelConfig& config, std::int64_t n_runs, std::int64_t n_tokens) {
  return n_runs * config.n_layers * n_tokens * config.head_dim * 4 * (2 * config.n_kv_heads + config.n_heads);
}

TEST_F(MemoryCheck, TheLongestPromptMustFit) {
  const std::int64_t rows = row_bytes(model_->config(), std::ssize(settings_.policies), 600);
  EXPECT_THAT([&] { check(rows); },
              ThrowsMessage<FileError>(AllOf(HasSubstr("p.jsonl, line 2: the prompt has 600 tokens"),
                                             HasSubstr("GiB are available; take --max-tokens "))));
  EXPECT_NO_THROW(check(2 * rows)) << "statistics and caches are less than the rows";
}

TEST_F(MemoryCheck, WhatItAdvisesFits) {
  const std::int64_t available = row_bytes(model_->config(), std::ssize(settings_.policies), 400);
  std::string message;
  try {
    check(available);
  } catch (const FileError& error) {
    message = error.what();
  }
  const std::string before = "--max-tokens ";
  ASSERT_THAT(message, HasSubstr(before));
  const std::size_t n_tokens = std::stoul(message.substr(message.find(before) + before.size()));
  EXPECT_GT(n_tokens, 200u);
  prompts_ = {prompt_of(1, n_tokens)};
  EXPECT_NO_THROW(check(available));
  prompts_ = {prompt_of(1, n_tokens + 1)};
  EXPECT_THROW(check(available), FileError);
}

TEST_F(MemoryCheck, WhereNothingFitsOnlyFewerPoliciesHelp) {
  EXPECT_THAT([&] { check(1000); },
              ThrowsMessage<FileError>(
                  AllOf(HasSubstr("are available; take fewer policies"), Not(HasSubstr("--max-tokens")))));
}

TEST_F(MemoryCheck, NoPromptsNeedNothing) {
  prompts_.clear();
  EXPECT_NO_THROW(check(0));
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> completed(const std::vector<std::string>& asked) {
  std::vector<analysis::PolicySpec> specs;
  for (const auto& text : asked) specs.push_back(analysis::parse_policy(text));
  std::vector<std::string> names;
  for (const auto& spec : complete_policies(specs)) names.push_back(spec.name);
  return names;
}

TEST(Settings, NoneAndKeydiffAlwaysRun) {
  EXPECT_THAT(completed({"sink"}), ElementsAre("none", "keydiff", "sink"));
  EXPECT_THAT(completed({"random", "keydiff", "none", "sink"}),
              ElementsAre("none", "keydiff", "random", "sink"));
  EXPECT_EQ(completed({}).size(), default_policies().size());
  EXPECT_THROW(completed({"sink", "sink:first=2"}), UsageError);
  EXPECT_THROW(completed({"keydiff", "keydiff:recent=0.1"}), UsageError);
  EXPECT_EQ(complete_policies({analysis::parse_policy("keydiff:recent=0.1")})[1].options.at("recent"), "0.1");
}

TEST(Settings, EveryOneOfThemMakesAnotherPrompt) {
  Settings settings;
  settings.policies = default_policies();
  const std::vector<std::int32_t> ids{1, 23};
  std::set<std::string> keys{prompt_key(settings_json(settings), ids)};
  const auto changed = [&](auto change) {
    Settings other = settings;
    change(other);
    keys.insert(prompt_key(settings_json(other), ids));
    EXPECT_EQ(results::setting_differences(settings_json(settings), settings_json(other)).size(), 1u);
  };
  changed([](Settings& s) { s.model.sha256 = "a"; });
  changed([](Settings& s) { s.model.dtype = "bfloat16"; });
  changed([](Settings& s) { s.policies.pop_back(); });
  changed([](Settings& s) { s.policies[1].options["recent"] = "0.5"; });
  changed([](Settings& s) { s.budget.share = 0.5; });
  changed([](Settings& s) { s.budget.rows = 64; });
  changed([](Settings& s) { s.block_size = 32; });
  changed([](Settings& s) { s.max_tokens = 100; });
  keys.insert(prompt_key(settings_json(settings), std::vector<std::int32_t>{12, 3}));
  EXPECT_EQ(keys.size(), 10u);
  EXPECT_THAT(results::setting_differences(settings_json(settings), settings_json(settings)), IsEmpty());
}

TEST(Settings, PromptsThatEvictNothingAreRefused) {
  Settings settings;
  settings.budget.rows = 20;
  settings.block_size = 8;
  std::vector<results::Prompt> prompts{{"a", std::vector<std::int32_t>(21, 1), "", 1}};
  EXPECT_NO_THROW(check_lengths(settings, prompts, "p.jsonl"));
  const auto error_of = [&](std::size_t n_tokens) {
    prompts.push_back({"b", std::vector<std::int32_t>(n_tokens, 1), "", 2});
    try {
      check_lengths(settings, prompts, "p.jsonl");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of(20), AllOf(HasSubstr("p.jsonl, line 2"), HasSubstr("budget of 20")));
  prompts.pop_back();
  settings.budget.rows = 4;
  EXPECT_THAT(error_of(8), AllOf(HasSubstr("p.jsonl, line 2"), HasSubstr("one block of 8")));
}

// A merged study comes from anywhere: what it says of a prompt is taken for that prompt alone.
TEST(AdoptedRecords, AreOfThesePromptsAndSettings) {
  const test::ScratchFolder scratch;
  Settings settings;
  settings.policies = default_policies();
  ResultFolder folder(scratch.file("a/b/out"), settings_json(settings), false);
  folder.begin();
  results::Prompt prompt;
  prompt.name = "line 1";
  prompt.ids = {12, 3};
  PromptRecord record = test::made_records(1).front();
  const auto adopt = [&] {
    adopt_records(
        settings, {&prompt, 1},
        [&](const Settings&, const results::Prompt&) { return json_text(prompt_record_json(record)); },
        folder);
  };
  const std::string key = prompt_key(settings_json(settings), prompt.ids), other = record.key;
  for (const std::string& wrong : {other, std::string("../../package"), scratch.file("x").string()}) {
    record.key = wrong;
    EXPECT_THROW(adopt(), FileError) << wrong;
    EXPECT_TRUE(std::filesystem::is_empty(folder.file("prompts"))) << wrong;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.file("a/b/package.json")));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("x.json")));
  record.key = key;
  adopt();
  EXPECT_TRUE(folder.find(key));
}

}  // namespace

}  // namespace keyscope::validation

namespace keyscope::test {

// The command as a whole: killed and begun again, stopped by Ctrl-C, with other settings.

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::size_t count_files(const fs::path& folder) {
  std::size_t n = 0;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) n += entry.path().extension() == ".json" ? 1 : 0;
  return n;
}

class Validate : public ::testing::Test {
 protected:
  // Prompts that differ, of ids that the demo model has.
  void write_prompts(int n_prompts, int n_tokens) const {
    std::ofstream file(folder_.file("prompts.jsonl"));
    for (int p = 0; p < n_prompts; ++p) {
      nlohmann::json ids = nlohmann::json::array();
      for (int i = 0; i < n_tokens; ++i) ids.push_back(256 + (i * (p + 3) + i * i) % 900);
      file << json_text(nlohmann::json{{"ids", ids}}) << "\n";
    }
  }

  std::vector<std::string> command(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"validate", "--model", kDemoModel,  "--prompts", path("prompts.jsonl"),
                                   "--out",    path(out), "--policy",  "sink",      "--policy",
                                   "random",   "--quiet", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string path(const std::string& name) const { return folder_.file(name).string(); }

  ScratchFolder folder_;
};

TEST_F(Validate, AKilledOneGoesOnToTheSameBytes) {
  write_prompts(10, 500);
  ASSERT_EQ(run_cli(command("whole")).status, 0);
  {
    CliProcess process(command("killed"));
    for (int i = 0; i < 3000 && count_files(path("killed") + "/prompts") < 2; ++i) usleep(10'000);
    EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
  }
  const std::size_t n_done = count_files(path("killed") + "/prompts");
  ASSERT_GE(n_done, 2u);
  ASSERT_LT(n_done, 10u) << "too late to be killed midway";
  EXPECT_FALSE(fs::exists(path("killed") + "/validation.json"));
  const CliResult result = run_cli(command("killed"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_file(path("killed") + "/validation.json"), read_file(path("whole") + "/validation.json"));
  EXPECT_EQ(count_files(path("killed") + "/prompts"), 10u);
}

TEST_F(Validate, CtrlCKeepsFinishedPrompts) {
  write_prompts(10, 500);
  CliProcess process(command("out"));
  for (int i = 0; i < 3000 && count_files(path("out") + "/prompts") < 1; ++i) usleep(10'000);
  EXPECT_EQ(process.end_by(SIGINT), 130);
  EXPECT_GE(count_files(path("out") + "/prompts"), 1u);
  EXPECT_FALSE(fs::exists(path("out") + "/validation.json"));
}

TEST_F(Validate, FinishedPromptsAreNotRunAgain) {
  write_prompts(3, 160);
  ASSERT_EQ(run_cli(command("out")).status, 0);
  const auto first = fs::directory_iterator(path("out") + "/prompts")->path();
  const auto written = fs::last_write_time(first);
  write_prompts(4, 160);
  ASSERT_EQ(run_cli(command("out")).status, 0);
  EXPECT_EQ(fs::last_write_time(first), written);
  EXPECT_EQ(parse_json(read_file(path("out") + "/validation.json"))["prompts"].size(), 4u);
}

TEST_F(Validate, OtherSettingsAreRefusedOrDiscarded) {
  write_prompts(2, 160);
  ASSERT_EQ(run_cli(command("out")).status, 0);
  const CliResult refused = run_cli(command("out", {"--block", "32"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("block is 128 there and 32 here"), HasSubstr("--force")));
  EXPECT_EQ(run_cli(command("out", {"--block", "32", "--force"})).status, 0);
  EXPECT_EQ(count_files(path("out") + "/prompts"), 2u);
}

TEST_F(Validate, BadRowsEndItBeforeAnythingRuns) {
  write_prompts(2, 160);
  std::ofstream(folder_.file("prompts.jsonl"), std::ios::app) << "{\"prompt\": 3}\n";
  const CliResult result = run_cli(command("out"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("prompts.jsonl, line 3"), HasSubstr("expected a text")));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Validate, WritesAPageNumbersAndFigures) {
  std::ofstream file(folder_.file("prompts.jsonl"));
  for (const char* text : {"<script>alert(1)</script> ", "And then she said: ", "The old prince "}) {
    std::string prompt;
    while (prompt.size() < 600) prompt += text;
    file << json_text(nlohmann::json{{"prompt", prompt}}) << "\n";
  }
  file.close();
  const CliResult result =
      run_cli(command("out", {"--max-tokens", "90", "--block", "64", "--keep-recordings"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(::testing::StartsWith("In demo_model, 3 prompts cannot tell whether"),
                    HasSubstr("3 prompts of 90 tokens, 4 layers × 4 KV heads"), HasSubstr("[cannot tell]"),
                    HasSubstr("rule: supported if"), HasSubstr("Theorems: what is proved")));
  const std::string page = read_file(path("out") + "/validation.html");
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(1)"), Not(HasSubstr("<script"))));
  const std::string json = read_file(path("out") + "/validation.json");
  EXPECT_THAT(json, Not(HasSubstr(folder_.path().string())));
  EXPECT_THAT(json, Not(HasSubstr(KEYSCOPE_SOURCE_DIR)));
  EXPECT_EQ(figures::read_figures(path("out") + "/validation.h5").figures.size(), 3u);
  for (const auto& recording : fs::directory_iterator(path("out") + "/recordings"))
    EXPECT_EQ(run_cli({"inspect", recording.path().string()}).status, 0);
  EXPECT_TRUE(fs::exists(path("out") + "/figures/policies.svg"));
}

// Both demo models have one configuration and one header; what is said of one must not be taken for the
// other.
TEST_F(Validate, ModelsOfOneArchitectureAreToldApart) {
  write_prompts(1, 160);
  const auto identity = [&](const std::string& model, const std::string& out) {
    auto words = command(out);
    *std::ranges::find(words, std::string(kDemoModel)) = model;
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 0) << result.err;
    const auto at = result.out.find(", weights ");
    EXPECT_NE(at, std::string::npos) << result.out;
    const std::string shown = result.out.substr(at, 22);
    EXPECT_THAT(read_file(path(out) + "/validation.html"), HasSubstr(shown));
    const auto settings = parse_json(read_file(path(out) + "/validation.json"))["settings"];
    EXPECT_TRUE(settings["weights_sha256"].get<std::string>().starts_with(shown.substr(10)));
    return std::pair(shown, settings["model_sha256"].get<std::string>());
  };
  const auto one = identity(kDemoModel, "one");
  const auto other = identity(KEYSCOPE_SOURCE_DIR "/assets/demo_model_sinks", "other");
  EXPECT_EQ(one.second, other.second) << "headers do not";
  EXPECT_NE(one.first, other.first);
}

}  // namespace

}  // namespace keyscope::test
