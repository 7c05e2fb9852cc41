// Models of GGUF files compute what the same weights do in Hugging Face layout, which transformers_test.cpp
// holds against Transformers.

#include "tests/support/gguf_models.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

namespace fs = std::filesystem;

using test::gguf_golden;

// Logits of the whole prompt and the keys of all layers.
std::vector<float> computed(const fs::path& path, ModelOptions model_options, Schedule schedule) {
  const auto model = Model::load(path, model_options);
  CaptureOptions options = test::full_cache_options();
  const auto n_tokens = static_cast<int>(std::min<std::int64_t>(60, model->config().context_length));
  options.prompt_ids = test::random_ids(n_tokens, model->config().vocab_size);
  options.record_logits = true;
  options.score_last = 1000;
  options.schedule = schedule;
  const auto recording = test::run_in_memory(*model, options).recording;
  const RowMatrixF logits = recording->logits(0);
  std::vector<float> all(logits.data(), logits.data() + logits.size());
  for (const int layer : recording->info()->layers)
    for (int head = 0; head < model->config().n_kv_heads; ++head) {
      const RowMatrixF keys = recording->keys(0, layer, head);
      all.insert(all.end(), keys.data(), keys.data() + keys.size());
    }
  return all;
}

class GgufModels : public ::testing::TestWithParam<Arithmetic> {};

TEST_P(GgufModels, ComputeWhatTheHuggingFaceFolderDoes) {
  for (const std::string& name : test::gguf_models()) {
    const test::HuggingFaceTwin folder(name);
    const ModelOptions options = test::model_options(GetParam(), DType::kFloat32);
    const auto expected = computed(folder.path(), options, Schedule::kBlock);
    const auto found = computed(gguf_golden(name), options, Schedule::kBlock);
    ASSERT_EQ(found.size(), expected.size());
    float difference = 0, largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference = std::max(difference, std::abs(found[i] - expected[i]));
      largest = std::max(largest, std::abs(expected[i]));
    }
    // A processor may multiply in another order where the operands lie at other places in memory, by
    // LibTorch's products; by our own it does not.
    const bool exact = GetParam() == Arithmetic::kKernels && !name.starts_with("tiny_gemma");
    EXPECT_LE(difference, (exact ? 0 : 1e-6F) * largest) << name;
    EXPECT_GT(largest, 0);
  }
}

TEST_P(GgufModels, StreamWhatTheyHold) {
  for (const std::string name : {"tiny_llama3", "tiny_gpt_oss"}) {
    ModelOptions options = test::model_options(GetParam(), DType::kFloat32);
    const auto whole = computed(gguf_golden(name), options, Schedule::kLayer);
    options.may_stream = true;
    options.residency = Residency::kStreamed;
    EXPECT_EQ(computed(gguf_golden(name), options, Schedule::kLayer), whole) << name;
  }
}

TEST(GgufModelHash, CoversTextNameSizeHeaderAndData) {
  test::ScratchFolder folder;
  const fs::path copy = folder.file("tiny_qwen3.gguf");
  fs::copy_file(gguf_golden("tiny_qwen3"), copy);
  const auto model = Model::load(gguf_golden("tiny_qwen3"), {});
  const auto same = Model::load(folder.path(), {});
  EXPECT_EQ(same->folder(), copy) << "the folder's only file";
  EXPECT_EQ(model->model_sha256(), same->model_sha256());
  EXPECT_EQ(sha256_with_weights(*model), sha256_with_weights(*same));
  {
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-40, std::ios::end);
    file.put('x');
  }
  const auto other = Model::load(copy, {});
  EXPECT_EQ(other->model_sha256(), model->model_sha256()) << "data are no part of it";
  EXPECT_NE(sha256_with_weights(*other), sha256_with_weights(*model));
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, GgufModels, test::both_arithmetics(), test::arithmetic_name);

}  // namespace
}  // namespace keyscope::capture
