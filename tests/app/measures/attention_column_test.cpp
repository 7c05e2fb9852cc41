#include "app/measures/attention_column.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/measures/attention_weights.hpp"
#include "tests/capture/inference/captured.hpp"

namespace keyscope::measures {
namespace {

constexpr std::int64_t kPrompt = 60, kAll = 64;
const std::atomic<bool> kGoOn = false;

struct Case {
  std::string model;
  bool attention = false, cache_positions = false;
};

std::shared_ptr<recording::Recording> capture(const Case& of) {
  const auto model = capture::Model::load(KEYSCOPE_SOURCE_DIR "/tests/capture/inference/goldens/" + of.model,
                                          {.dtype = capture::DType::kFloat32});
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
  const int group = info->model.group_size();
  for (const int run : {0, 1}) {
    const std::int64_t n = info->runs[static_cast<std::size_t>(run)].n_tokens;
    RowMatrixD mean = RowMatrixD::Zero(n, n);
    for (int g = 0; g < group; ++g)
      mean += visible_attention(*recording, run, 1, g, 0, n).cast<double>() / group;
    std::int64_t n_seen = 0;
    for (const std::int64_t position : {0, 1, 7, 30, 59}) {
      const auto column = attention_column(*recording, {run, 1, 0}, position, 0, n, kGoOn);
      ASSERT_EQ(std::ssize(column), n);
      for (std::int64_t query = 0; query < n; ++query) {
        const double found = column[static_cast<std::size_t>(query)], expected = mean(query, position);
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
                                           Case{"tiny_mistral_window"}, Case{"tiny_llama", true},
                                           Case{"tiny_llama", false, true}),
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

}  // namespace
}  // namespace keyscope::measures
