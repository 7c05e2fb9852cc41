#include "app/measures/attention_weights.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/figures/fake_recording.hpp"
#include "tests/capture/inference/captured.hpp"

namespace keyscope::measures {
namespace {

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

struct Case {
  std::string model;  // of tests/capture/inference/goldens
  std::string policy;
  bool cache_positions = false;
};

// Against the weights that attention itself used, prompt and generated tokens alike.
class AsCaptured : public ::testing::TestWithParam<Case> {};

TEST_P(AsCaptured, EveryWeightIsTheEngines) {
  const auto model =
      capture::Model::load(KEYSCOPE_SOURCE_DIR "/tests/capture/inference/goldens/" + GetParam().model,
                           {.dtype = capture::DType::kFloat32});
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
  for (int layer = 0; layer < info->model.n_layers; ++layer)
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
  EXPECT_GT(n_visible, n * info->model.n_layers * info->model.n_heads);
}

INSTANTIATE_TEST_SUITE_P(
    Models, AsCaptured,
    ::testing::Values(Case{"tiny_llama", "keydiff"}, Case{"tiny_gemma2", "none"}, Case{"tiny_gemma2", "h2o"},
                      Case{"tiny_gemma3", "none"}, Case{"tiny_mistral_window", "none"},
                      Case{"tiny_qwen2_window", "keydiff"}, Case{"tiny_qwen3_window", "none"},
                      Case{"tiny_llama", "sink", true}, Case{"tiny_llama", "h2o", true},
                      Case{"tiny_llama_dynamic", "keydiff", true}),
    [](const auto& test) {
      return test.param.model + "_" + test.param.policy + (test.param.cache_positions ? "_by_place" : "");
    });

}  // namespace
}  // namespace keyscope::measures
