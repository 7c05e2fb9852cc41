#include "app/validation/memory_check.hpp"

#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/commands/cli_run.hpp"

namespace keyscope::validation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Prompt prompt_of(std::int64_t line, std::size_t n_tokens) {
  Prompt prompt;
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
    const auto where = [](const Prompt& prompt) { return "p.jsonl, line " + std::to_string(prompt.line); };
    check_memory(*model_, settings_, prompts_, {where, "--max-tokens"}, available);
  }

  std::shared_ptr<const capture::Model> model_ = capture::Model::load(test::kDemoModel, {});
  Settings settings_;
  std::vector<Prompt> prompts_{prompt_of(1, 100), prompt_of(2, 600), prompt_of(4, 300)};
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

}  // namespace
}  // namespace keyscope::validation
