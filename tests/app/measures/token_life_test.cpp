// When a token came, when and why it went, and when it could not go.

#include "app/measures/token_life.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::measures {
namespace {

const std::atomic<bool> kStillWanted = false;

test::Captured captured(const std::string& policy, std::int64_t budget = 12) {
  capture::CaptureOptions options = test::full_cache_options();  // 50 tokens in blocks of 16
  options.policies = test::policies({policy});
  options.budget = budget;
  options.generate = 3;
  options.ignore_eos = true;
  return test::run_in_memory(test::tiny_model(), options);
}

// A letter a block: . not seen, i in the cache, f forced, e evicted, p passed.
std::string letters(const TokenLife& life, std::int64_t n_blocks) {
  std::string text;
  for (std::int64_t block = 0; block < n_blocks; ++block) {
    const auto state = life.at(block);
    text += state ? "ifep"[static_cast<int>(*state)] : '.';
  }
  return text;
}

TEST(TokenLives, TheFirstTokensOfSinkAreForcedWheneverOthersGo) {
  const auto run = captured("sink");
  const auto lives = token_lives(*run.recording, {0, 1, 0}, kStillWanted);
  ASSERT_EQ(lives.size(), 52U);
  EXPECT_EQ(letters(lives[0], 6), "ffffff");
  EXPECT_EQ(letters(lives[3], 6), "ffffff");
  EXPECT_EQ(letters(lives[4], 6), "eeeeee");
  EXPECT_EQ(letters(lives[15], 6), "ieeeee");  // the most recent of the first block
  EXPECT_EQ(letters(lives[16], 6), ".eeeee");
  EXPECT_EQ(letters(lives[51], 6), ".....i");
}

TEST(TokenLives, TheMostRecentRowsAreForcedWhereThePolicySaysSo) {
  const auto run = captured("keydiff:recent=0.25");
  const auto lives = token_lives(*run.recording, {0, 0, 1}, kStillWanted);
  for (const std::int64_t token : {45, 46, 47}) EXPECT_EQ(lives[token].at(2), LifeState::kForced) << token;
  EXPECT_NE(lives[44].at(2), LifeState::kForced);
}

TEST(TokenLives, NothingIsForcedWhereNothingHadToGo) {
  const auto run = captured("sink", 60);
  for (const TokenLife& life : token_lives(*run.recording, {0, 0, 0}, kStillWanted)) {
    EXPECT_FALSE(life.gone);
    EXPECT_TRUE(life.forced.empty());
  }
}

// The slow and obvious way: every token's story, which scores all rows anew.
TEST(TokenLives, AgreeWithEveryTokensStory) {
  for (const std::string policy : {"keydiff:recent=0.25", "sink", "random", "l2norm"}) {
    const auto run = captured(policy);
    const auto lives = token_lives(*run.recording, {0, 1, 1}, kStillWanted);
    const auto trace = run.recording->trace(0, 1, 1);
    for (std::int64_t token = 0; token < std::ssize(lives); ++token) {
      EXPECT_EQ(lives[token].gone.value_or(-1), trace.evicted_at[token]);
      for (const ScoreAtBlock& at : score_history(*run.recording, {0, 1, 1}, token, kStillWanted).blocks) {
        const auto state = lives[token].at(at.block);
        ASSERT_TRUE(state);
        if (at.n_rows > 12) {
          EXPECT_EQ(at.forced, state == LifeState::kForced) << policy << token << at.block;
        }
      }
    }
  }
}

TEST(TokenLives, WhatAWindowPassesIsNotThePolicys) {
  test::RandomModel folder;
  folder.config["model_type"] = "qwen2";
  folder.config["architectures"] = {"Qwen2ForCausalLM"};
  folder.config["use_sliding_window"] = true;
  folder.config["sliding_window"] = 20;
  folder.config["max_window_layers"] = 1;
  for (const std::string layer : {"0", "1"})
    for (const auto& [name, size] : {std::pair{"q", 32}, {"k", 16}, {"v", 16}})
      folder.tensors["model.layers." + layer + ".self_attn." + name + "_proj.bias"] = {
          "F32", {size}, std::string(static_cast<std::size_t>(size) * 4, '\0')};
  const auto model = capture::Model::load(folder.save(), {});
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none"});
  const auto run = test::run_in_memory(*model, options);
  int n_passed = 0;
  for (int layer = 0; layer < 2; ++layer)
    for (const TokenLife& life : token_lives(*run.recording, {0, layer, 0}, kStillWanted)) {
      EXPECT_EQ(life.gone.has_value(), life.passed);
      n_passed += life.passed ? 1 : 0;
    }
  EXPECT_GT(n_passed, 0);
}

TEST(TokenLives, AreCalledOff) {
  const std::atomic<bool> stop = true;
  const auto run = captured("sink");
  EXPECT_THROW(token_lives(*run.recording, {0, 0, 0}, stop), Cancelled);
}

}  // namespace
}  // namespace keyscope::measures
