// The stories of tokens of captured models, against the weights that attention used and the margins that
// eviction recorded.

#include "app/measures/token_story.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::measures {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kStoryPrompt = 60, kBlock = 4;
const std::atomic<bool> kNotCancelled = false;

std::shared_ptr<recording::Recording> capture(const std::string& name, bool attention,
                                              bool cache_positions = false) {
  const auto model = capture::Model::load(test::inference_golden(name), {.dtype = capture::DType::kFloat32});
  capture::CaptureOptions options;
  options.prompt_ids = test::random_ids(kStoryPrompt, model->config().vocab_size);
  options.policies = test::policies({"none", "keydiff", "keydiff:recent=0.4", "l2norm", "random", "tova"});
  options.budget = 5;
  options.block_size = kBlock;
  options.generate = 4;
  options.ignore_eos = true;
  options.record_attention = attention;
  options.cache_positions = cache_positions;
  return test::run_in_memory(*model, options).recording;
}

class Stories : public ::testing::TestWithParam<std::string> {};

// A score that is computed again puts every token on the side of the cut that it went to, by the margin that
// eviction recorded.
TEST_P(Stories, ScoresAreThoseThatEvictedTheToken) {
  const auto recording = capture(GetParam(), false);
  int n_judged = 0;
  for (const int run : {1, 2, 3, 4})
    for (int kv_head = 0; kv_head < recording->info()->model.n_kv_heads; ++kv_head) {
      const auto trace = recording->trace(run, 0, kv_head);
      for (std::int32_t token = 0; token < kStoryPrompt; token += 3) {
        const auto gone = trace.evicted_at[token];
        const float margin = trace.evicted_margin[token];
        const ScoreHistory history = score_history(*recording, {run, 0, kv_head}, token, kNotCancelled);
        ASSERT_EQ(history.missing, "");
        for (const ScoreAtBlock& at : history.blocks) {
          const bool goes = gone == at.block;
          EXPECT_LE(at.block, gone < 0 ? 1000 : gone);
          if (!goes && at.cut && !at.forced) {
            EXPECT_GE(at.score, *at.cut);
          }
          if (goes && !std::isnan(margin)) {
            ASSERT_TRUE(at.cut);
            EXPECT_NEAR(*at.cut - at.score, margin, 1e-5 + 1e-4 * std::abs(margin));
            EXPECT_GT(at.rank, 1);
            ++n_judged;
          }
        }
      }
    }
  EXPECT_GT(n_judged, 20);
}

// Mean over the group of the recorded weights.
RowMatrixD recorded_weights(const recording::Recording& recording, int run, int layer, int kv_head) {
  const int group = recording.info()->model.group_size(0);
  RowMatrixD mean = recording.attention(run, layer, kv_head * group).cast<double>();
  for (int g = 1; g < group; ++g) mean += recording.attention(run, layer, kv_head * group + g).cast<double>();
  return mean / group;
}

TEST_P(Stories, PeersAreTheLargestOfTheRecordedWeights) {
  for (const bool recorded : {true, false}) {
    const auto recording = capture(GetParam(), true);
    const auto computed = recorded ? recording : capture(GetParam(), false);
    const RowMatrixD weights = recorded_weights(*recording, 1, 1, 0);
    for (const std::int64_t token : {0, 5, 20, 59}) {
      const TokenAttention found = token_attention(*computed, {1, 1, 0}, token, 3, kNotCancelled);
      ASSERT_EQ(found.missing, "");
      ASSERT_FALSE(found.attended_to.empty());
      EXPECT_NEAR(found.attended_to.front().weight, weights.row(token).maxCoeff(), 1e-5);
      for (const AttentionPeer& peer : found.attended_to)
        EXPECT_NEAR(peer.weight, weights(token, peer.position), 1e-5);
      const Eigen::Index later = weights.rows() - token - 1;
      if (!found.attended_by.empty()) {
        EXPECT_NEAR(found.attended_by.front().weight, weights.col(token).tail(later).maxCoeff(), 1e-5);
      }
      for (const AttentionPeer& peer : found.attended_by) {
        EXPECT_GT(peer.position, token);
        EXPECT_NEAR(peer.weight, weights(peer.position, token), 1e-5);
      }
      EXPECT_TRUE(std::ranges::is_sorted(found.attended_by, std::greater<>(), &AttentionPeer::weight));
    }
  }
}

TEST_P(Stories, TheAfterlifeIsTheFullCachesAttention) {
  const auto recording = capture(GetParam(), true);
  const RowMatrixD weights = recorded_weights(*recording, 0, 1, 0);
  const auto trace = recording->trace(1, 1, 0);
  int n_gone = 0;
  for (std::int64_t token = 0; token < kStoryPrompt; ++token) {
    const auto gone = trace.evicted_at[token];
    const auto after = attention_afterwards(*recording, {1, 1, 0}, token, kNotCancelled);
    ASSERT_EQ(after.has_value(), gone >= 0);
    if (!after) continue;
    const std::int64_t first = std::min<std::int64_t>(kStoryPrompt, kBlock * (gone + 1));
    double sum = 0;
    for (std::int64_t query = first; query < kStoryPrompt; ++query) sum += weights(query, token);
    EXPECT_NEAR(after->received, sum, 1e-5);
    EXPECT_EQ(after->n_queries, kStoryPrompt - first);
    EXPECT_LE(after->received, after->received_in_all + 1e-5);
    ++n_gone;
  }
  EXPECT_GT(n_gone, 20);
}

INSTANTIATE_TEST_SUITE_P(Models, Stories,
                         ::testing::Values("tiny_llama", "tiny_gemma2", "tiny_mistral_window"),
                         [](const auto& test) { return test.param; });

TEST(TokenStory, RowsThatMoveAreScoredWhereTheyWere) {
  const auto recording = capture("tiny_llama", false, true);
  const auto trace = recording->trace(1, 0, 0);
  int n_judged = 0;
  for (std::int32_t token = 0; token < kStoryPrompt; ++token) {
    const float margin = trace.evicted_margin[token];
    if (std::isnan(margin)) continue;
    const auto history = score_history(*recording, {1, 0, 0}, token, kNotCancelled);
    const ScoreAtBlock& last = history.blocks.back();
    ASSERT_TRUE(last.cut);
    EXPECT_NEAR(*last.cut - last.score, margin, 1e-4);
    ++n_judged;
  }
  EXPECT_GT(n_judged, 10);
}

TEST(TokenStory, SaysWhatWasNotRecorded) {
  const auto recording = capture("tiny_llama", false);
  const TokenStory none = token_story(*recording, {0, 0, 0}, 3, kNotCancelled);
  EXPECT_THAT(none.scores.missing, HasSubstr("evicts nothing"));
  EXPECT_EQ(none.afterwards_missing, "it stayed");
  EXPECT_THAT(token_story(*recording, {5, 0, 0}, 3, kNotCancelled).scores.missing,
              HasSubstr("tova scores by attention"));
  figures::FakeRecording replayed(1, 2, 1, 2, 8, 4);
  replayed.add_run("sink", 4);
  replayed.fill(1);
  replayed.edit_info().runs[0].plan.replayed = true;
  const TokenStory story = token_story(replayed, {0, 0, 0}, 1, kNotCancelled);
  EXPECT_THAT(story.attention.missing, HasSubstr("replayed"));
  EXPECT_EQ(story.attention_received, std::nullopt);
}

TEST(TokenStory, HasTheTextAroundAndGoesIntoJson) {
  figures::FakeRecording recording(1, 2, 1, 2, 32, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 8);
  recording.fill(1);
  recording.evicted_at(1, 0, 0)[14] = 1;
  const TokenStory story = token_story(recording, {1, 0, 0}, 14, kNotCancelled);
  EXPECT_EQ(story.text, "o");
  EXPECT_EQ(story.before, "cdefghijklmn");
  EXPECT_EQ(story.after, "pqrstuvwxyza");
  EXPECT_EQ(story.arrived, 1);
  const auto json = token_story_json(*recording.info(), story);
  EXPECT_EQ(json["run"], "keydiff");
  EXPECT_EQ(json["evicted_at"], 1);
  EXPECT_TRUE(json["evicted_margin"].is_null());
  EXPECT_EQ(json["scores"].size(), 1U);
  EXPECT_EQ(json["afterwards"]["n_queries"], 16);
  EXPECT_EQ(json["attended_to"].size(), story.attention.attended_to.size());
}

TEST(TokenStory, CanBeLeftOff) {
  const std::atomic<bool> cancelled = true;
  figures::FakeRecording recording(1, 1, 1, 2, 32, 8);
  recording.add_run("keydiff", 8);
  recording.fill(1);
  EXPECT_THROW(token_story(recording, {0, 0, 0}, 3, cancelled), Cancelled);
  EXPECT_THROW(token_story(recording, {0, 0, 0}, 32, kNotCancelled), InvalidInput);
}

}  // namespace
}  // namespace keyscope::measures
