// Layers with a sliding window: what must hold whatever the weights are.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

constexpr int kWindow = 11;
constexpr std::int64_t kPrompt = 70;

// Random weights of a Qwen2 without biases: the first layer sees everything, the second through a window.
class Windows : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    folder_.config["model_type"] = "qwen2";
    folder_.config["architectures"] = {"Qwen2ForCausalLM"};
    folder_.config["use_sliding_window"] = true;
    folder_.config["sliding_window"] = kWindow;
    folder_.config["max_window_layers"] = 1;
    for (const std::string layer : {"0", "1"})
      for (const auto& [name, size] : {std::pair{"q", 32}, {"k", 16}, {"v", 16}})
        folder_.tensors["model.layers." + layer + ".self_attn." + name + "_proj.bias"] = {
            "F32", {size}, std::string(static_cast<std::size_t>(size) * 4, '\0')};
    model_ = Model::load(folder_.save(), test::model_options(GetParam()));
    // Every id once: some policies score equal tokens alike, and between those a rounding would decide.
    for (std::int32_t i = 0; i < kPrompt; ++i) options_.prompt_ids.push_back(4 + i * 37 % 71);
    options_.policies = test::policies({"none"});
    options_.generate = 4;
    options_.ignore_eos = true;
    options_.record_attention = true;
  }

  std::vector<std::int32_t> evicted_at(const test::Captured& run, int layer, int run_index = 0) const {
    return run.recording->trace(run_index, layer, 1).evicted_at;
  }

  test::RandomModel folder_{{.vocab_size = 80}};
  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
};

// Largest difference of keys and attention received over all heads.
double difference(const test::Captured& a, const test::Captured& b) {
  double largest = 0;
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      const RowMatrixF keys = a.recording->keys(0, layer, head) - b.recording->keys(0, layer, head);
      largest = std::max<double>(largest, keys.cwiseAbs().maxCoeff());
      const auto x = a.recording->trace(0, layer, head), y = b.recording->trace(0, layer, head);
      for (std::size_t i = 0; i < x.attention_received.size(); ++i) {
        largest = std::max(largest, std::abs(x.attention_received[i] - y.attention_received[i]));
        EXPECT_EQ(x.attention_queries[i], y.attention_queries[i]);
      }
    }
  return largest;
}

TEST_P(Windows, WithoutEvictionTheBlockSizeChangesNothing) {
  options_.block_size = kPrompt;
  const auto whole = test::run_in_memory(*model_, options_);
  for (const Schedule schedule : {Schedule::kBlock, Schedule::kLayer})
    for (const std::int64_t block_size : {1, 3, 11, 16, 69, 1000}) {
      options_.schedule = schedule;
      options_.block_size = block_size;
      const auto in_blocks = test::run_in_memory(*model_, options_);
      EXPECT_EQ(in_blocks.outcomes[0].generated, whole.outcomes[0].generated) << block_size;
      EXPECT_LT(difference(in_blocks, whole), 3e-5) << block_size;
    }
}

TEST_P(Windows, AQuerySeesAsManyTokensAsTheWindowHas) {
  options_.block_size = 16;
  const auto run = test::run_in_memory(*model_, options_);
  const RowMatrixF weights = run.recording->attention(0, 1, 0);
  for (std::int64_t query = 0; query < kPrompt; ++query)
    for (std::int64_t key = 0; key < weights.cols(); ++key) {
      const bool visible = key <= query && query - key < kWindow;
      if (visible)
        EXPECT_GT(weights(query, key), 0) << query << ", " << key;
      else
        EXPECT_FALSE(weights(query, key) > 0) << query << ", " << key;
    }
}

TEST_P(Windows, RowsPastTheWindowAreDroppedAtTheEndOfTheirBlockAndHaveNoMargin) {
  options_.block_size = 16;
  options_.generate = 0;
  const auto run = test::run_in_memory(*model_, options_);
  const auto trace = run.recording->trace(0, 1, 0);
  for (std::int64_t i = 0; i < kPrompt; ++i) {
    // Seen no more by the first token after the block.
    std::int32_t expected = -1;
    for (std::int64_t end = 16, block = 0; expected < 0 && end < kPrompt + 16; end += 16, ++block)
      if (i < std::min(end, kPrompt) && std::min(end, kPrompt) - i >= kWindow)
        expected = static_cast<std::int32_t>(block);
    EXPECT_EQ(trace.evicted_at[i], expected) << i;
    EXPECT_TRUE(std::isnan(trace.evicted_margin[i])) << i;
  }
  for (const std::int32_t block : evicted_at(run, 0)) EXPECT_EQ(block, -1);
}

TEST_P(Windows, UnderAPolicyBothSchedulesKeepTheSameRows) {
  for (const char* policy : {"keydiff", "sink", "l2norm", "tova", "h2o", "snapkv", "random", "cur", "logdet"})
    for (const auto& [budget, block_size] : {std::pair{8, 6}, {5, 1}, {6, 16}, {30, 7}}) {
      options_.policies = test::policies({policy});
      options_.budget = budget;
      options_.block_size = block_size;
      options_.schedule = Schedule::kBlock;
      const auto by_blocks = test::run_in_memory(*model_, options_);
      options_.schedule = Schedule::kLayer;
      const auto by_layers = test::run_in_memory(*model_, options_);
      for (int layer = 0; layer < 2; ++layer)
        EXPECT_EQ(evicted_at(by_layers, layer), evicted_at(by_blocks, layer)) << policy;
      EXPECT_EQ(by_layers.outcomes[0].generated, by_blocks.outcomes[0].generated) << policy;
      EXPECT_LE(by_blocks.outcomes[0].peak_cache_rows, budget + block_size) << policy;
    }
}

// All layers have windows: then no cache is larger, whatever is evicted.
TEST_P(Windows, NoCacheHoldsMoreThanTheWindowAndOneBlock) {
  folder_.config["max_window_layers"] = 0;
  model_ = Model::load(folder_.save(), test::model_options(GetParam()));
  for (const std::int64_t block_size : {1, 8, 100}) {
    options_.block_size = block_size;
    const auto outcome = test::run_in_memory(*model_, options_).outcomes[0];
    EXPECT_LE(outcome.peak_cache_rows, kWindow - 1 + std::min(block_size, kPrompt)) << block_size;
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, Windows, test::both_arithmetics(), test::arithmetic_name);

}  // namespace
}  // namespace keyscope::capture
