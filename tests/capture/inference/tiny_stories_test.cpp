// A real pretrained checkpoint against its float64 reference; skipped where the shared data is not there.

#include <cstdlib>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::capture {
namespace {

class TinyStories : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    const char* data = std::getenv("KEYSCOPE_TEST_DATA");
    if (data == nullptr) GTEST_SKIP() << "KEYSCOPE_TEST_DATA is not set";
    const auto folder = std::filesystem::path(data) / "models/TinyStories-656K";
    model_ = Model::load(folder, test::model_options(GetParam()));
    reference_ = parse_json(read_file(folder / "greedy_reference.json"));
  }

  CaptureOptions options(std::int64_t block_size) const {
    CaptureOptions options;
    options.prompt_ids = reference_["prompt_ids"].get<std::vector<std::int32_t>>();
    options.policies = test::policies({"none"});
    options.block_size = block_size;
    options.ignore_eos = true;
    options.generate = static_cast<std::int64_t>(reference_["greedy_ids"].size() - options.prompt_ids.size());
    return options;
  }

  std::shared_ptr<const Model> model_;
  nlohmann::json reference_;
};

TEST_P(TinyStories, GeneratesTheReferenceInBlocksOfAnySize) {
  for (const std::int64_t block_size : {1, 4, 128}) {
    auto ids = options(block_size).prompt_ids;
    const auto captured = test::run_in_memory(*model_, options(block_size));
    ids.insert(ids.end(), captured.outcomes[0].generated.begin(), captured.outcomes[0].generated.end());
    EXPECT_EQ(ids, reference_["greedy_ids"].get<std::vector<std::int32_t>>()) << "blocks of " << block_size;
    const auto info = captured.recording->info();
    const auto& top = reference_["top10_logits_at_last_prompt_token"];
    ASSERT_EQ(info->runs[0].top_ids.size(), top.size());
    for (std::size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(info->runs[0].top_ids[i], top[i][1].get<std::int32_t>());
      EXPECT_NEAR(info->runs[0].top_logits[i], top[i][0].get<double>(), 1e-3);
    }
  }
}

TEST_P(TinyStories, PromptIsTokenisedAsTheReferenceWas) {
  ASSERT_NE(model_->tokenizer(), nullptr);
  EXPECT_EQ(model_->tokenizer()->encode(reference_["prompt"].get<std::string>(), true),
            options(1).prompt_ids);
}

// What is generated reads on from the prompt: the two texts together are the text of all ids.
TEST_P(TinyStories, GeneratedTextContinuesThePrompt) {
  const auto captured = test::run_in_memory(*model_, options(4));
  const auto info = captured.recording->info();
  const auto all = reference_["greedy_ids"].get<std::vector<std::int32_t>>();
  EXPECT_EQ(info->prompt.text + info->runs[0].generated.text, model_->tokenizer()->decode(all));
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, TinyStories, test::both_arithmetics(), test::arithmetic_name);

}  // namespace
}  // namespace keyscope::capture
