#include "app/measures/attention_weights.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::measures {

namespace {

constexpr std::int64_t kPrompt = 60, kAll = 64;
const std::atomic<bool> kGoOn = false;

struct Case {
  std::string model;
  bool attention = false, cache_positions = false;
};

std::shared_ptr<recording::Recording> capture(const Case& of) {
  const auto model =
      capture::Model::load(test::inference_golden(of.model), {.dtype = capture::DType::kFloat32});
  capture::CaptureOptions options;
  options.prompt_ids = test::random_ids(kPrompt, model->config().vocab_size);
  options.policies = test::policies({"none", "keydiff"});
  options.budget = 5;
  options.block_size = 4;
  options.generate = kAll - kPrompt;
  options.ignore_eos = true;
  options.record_attention = of.attention;
  options.cache_positions = of.cache_positions;
  return test::run_in_memory(*model, options).recording;
}

class AttentionColumn : public ::testing::TestWithParam<Case> {};

// The whole matrix of every query head, and of that one column.
TEST_P(AttentionColumn, IsThatOfTheMatrix) {
  const auto recording = capture(GetParam());
  const auto info = recording->info();
  const int group = info->model.group_size(0);
  for (const int run : {0, 1}) {
    const std::int64_t n = info->runs[run].n_tokens;
    RowMatrixD mean = RowMatrixD::Zero(n, n);
    for (int g = 0; g < group; ++g)
      mean += visible_attention(*recording, run, 1, g, 0, n).cast<double>() / group;
    std::int64_t n_seen = 0;
    for (const std::int64_t position : {0, 1, 7, 30, 59}) {
      const auto column = attention_column(*recording, {run, 1, 0}, position, 0, n, kGoOn);
      ASSERT_EQ(std::ssize(column), n);
      for (std::int64_t query = 0; query < n; ++query) {
        const double found = column[query], expected = mean(query, position);
        ASSERT_EQ(std::isnan(found), std::isnan(expected)) << query << " on " << position << ", run " << run;
        if (std::isnan(found)) continue;
        EXPECT_NEAR(found, expected, 1e-6) << query << " on " << position << ", run " << run;
        ++n_seen;
      }
    }
    EXPECT_GT(n_seen, 20);
  }
}

TEST_P(AttentionColumn, OfAPartIsThatPart) {
  const auto recording = capture(GetParam());
  const auto whole = attention_column(*recording, {1, 1, 0}, 2, 0, 40, kGoOn);
  const auto part = attention_column(*recording, {1, 1, 0}, 2, 3, 17, kGoOn);
  ASSERT_EQ(part.size(), 14U);
  for (std::size_t i = 0; i < part.size(); ++i)
    EXPECT_TRUE(std::isnan(part[i]) ? std::isnan(whole[i + 3]) : std::abs(part[i] - whole[i + 3]) < 1e-6)
        << i;
  EXPECT_TRUE(attention_column(*recording, {1, 1, 0}, 2, 9, 9, kGoOn).empty());
}

INSTANTIATE_TEST_SUITE_P(Models, AttentionColumn,
                         ::testing::Values(Case{"tiny_llama"}, Case{"tiny_gemma2"},
                                           Case{"tiny_mistral_window"}, Case{"tiny_gpt_oss"},
                                           Case{"tiny_llama", true}, Case{"tiny_llama", false, true}),
                         [](const auto& test) {
                           return test.param.model + (test.param.attention ? "_recorded" : "") +
                                  (test.param.cache_positions ? "_moved" : "");
                         });

TEST(AttentionColumns, CanBeLeftOff) {
  const std::atomic<bool> cancelled = true;
  for (const bool attention : {false, true})
    EXPECT_THROW(attention_column(*capture({"tiny_llama", attention}), {0, 0, 0}, 1, 2, 50, cancelled),
                 Cancelled);
}

using figures::FakeRecording;
using figures::one_eviction;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(AttentionWeights, SoftmaxOverWhatEachQueryCouldSee) {
  const RowMatrixF weights = recompute_attention(one_eviction(), 0, 0, 1, 0, 4);
  RowMatrixF expected(4, 4);
  expected << 1, NAN, NAN, NAN, 0.75F, 0.25F, NAN, NAN, 0.75F, NAN, 0.25F, NAN, 0.6F, NAN, 0.2F, 0.2F;
  for (Eigen::Index i = 0; i < 16; ++i) {
    const float value = weights.data()[i], wanted = expected.data()[i];
    EXPECT_EQ(std::isnan(value), std::isnan(wanted)) << i;
    if (!std::isnan(wanted)) {
      EXPECT_NEAR(value, wanted, 1e-6) << i;
    }
  }
}

TEST(AttentionWeights, BandsAreThatPartOfTheWhole) {
  FakeRecording recording(1, 1, 1, 8, 40, 8);
  recording.add_run("sink", 12);
  recording.fill(9);
  const RowMatrixF whole = recompute_attention(recording, 0, 0, 0, 0, 40);
  const RowMatrixF band = recompute_attention(recording, 0, 0, 0, 11, 9);
  for (Eigen::Index r = 0; r < 9; ++r) {
    double sum = 0;
    for (Eigen::Index c = 0; c < 20; ++c) {
      const float a = whole(11 + r, c), b = band(r, c);
      EXPECT_EQ(std::isnan(a), std::isnan(b));
      if (std::isnan(a)) continue;
      EXPECT_NEAR(a, b, 1e-6);
      sum += b;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(AttentionWeights, NeedQueriesAndKeys) {
  FakeRecording recording = one_eviction();
  recording.edit_info().queries = false;
  EXPECT_THAT([&] { recompute_attention(recording, 0, 0, 0, 0, 4); },
              ThrowsMessage<FileError>(HasSubstr("--record keys,queries,attention")));
}

TEST(AttentionWeights, NothingBeyondTheWindowIsVisible) {
  const FakeRecording recording = one_eviction();
  RowMatrixF weights = RowMatrixF::Ones(4, 4);
  const analysis::AttentionRules rules{.window = 2};
  blank_invisible(weights, 0, recording.info()->runs[0], recording.trace(0, 0, 0).evicted_at, rules);
  for (Eigen::Index query = 0; query < 4; ++query)
    for (Eigen::Index key = 0; key < 4; ++key) {
      const bool evicted = key == 1 && query >= 2;
      EXPECT_EQ(std::isnan(weights(query, key)), key > query || query - key >= 2 || evicted)
          << query << ", " << key;
    }
}

struct CapturedCase {
  std::string model;  // of tests/capture/inference/goldens
  std::string policy;
  bool cache_positions = false;
};

// Against the weights that attention itself used, prompt and generated tokens alike.
class AsCaptured : public ::testing::TestWithParam<CapturedCase> {};

TEST_P(AsCaptured, EveryWeightIsTheEngines) {
  const auto model =
      capture::Model::load(test::inference_golden(GetParam().model), {.dtype = capture::DType::kFloat32});
  capture::CaptureOptions options;
  options.prompt_ids = test::random_ids(60, model->config().vocab_size);
  options.policies = test::policies({GetParam().policy});
  options.budget = 14;
  options.block_size = 9;
  options.generate = 6;
  options.ignore_eos = true;
  options.record_attention = true;
  options.cache_positions = GetParam().cache_positions;
  const auto captured = test::run_in_memory(*model, options);
  const auto info = captured.recording->info();
  const std::int64_t n = info->runs[0].n_tokens;
  std::int64_t n_visible = 0;
  for (const int layer : info->layers)
    for (int head = 0; head < info->model.n_heads; ++head) {
      const RowMatrixF recorded = captured.recording->attention(0, layer, head);
      const RowMatrixF found = recompute_attention(*captured.recording, 0, layer, head, 0, n);
      for (std::int64_t query = 0; query < n; ++query)
        for (std::int64_t key = 0; key < n; ++key) {
          const bool visible = !std::isnan(found(query, key));
          ASSERT_EQ(recorded(query, key) > 0, visible) << layer << ", " << query << ", " << key;
          if (!visible) continue;
          ++n_visible;
          ASSERT_NEAR(found(query, key), recorded(query, key), 1e-5) << layer << ", " << query << ", " << key;
        }
    }
  EXPECT_GT(n_visible, n * std::ssize(info->layers) * info->model.n_heads);
}

INSTANTIATE_TEST_SUITE_P(
    Models, AsCaptured,
    ::testing::Values(CapturedCase{"tiny_llama", "keydiff"}, CapturedCase{"tiny_gemma2", "none"},
                      CapturedCase{"tiny_gemma2", "h2o"}, CapturedCase{"tiny_gemma3", "none"},
                      CapturedCase{"tiny_mistral_window", "none"},
                      CapturedCase{"tiny_qwen2_window", "keydiff"}, CapturedCase{"tiny_qwen3_window", "none"},
                      CapturedCase{"tiny_gpt_oss", "none"}, CapturedCase{"tiny_gpt_oss", "h2o"},
                      CapturedCase{"tiny_qwen3_next", "keydiff"}, CapturedCase{"tiny_gemma4", "h2o"},
                      CapturedCase{"tiny_gemma4_moe", "keydiff"}, CapturedCase{"tiny_llama", "sink", true},
                      CapturedCase{"tiny_llama", "h2o", true},
                      CapturedCase{"tiny_llama_dynamic", "keydiff", true}),
    [](const auto& test) {
      return test.param.model + "_" + test.param.policy + (test.param.cache_positions ? "_by_place" : "");
    });

}  // namespace

}  // namespace keyscope::measures
