// Sets that do not depend on the block size: of keys that no eviction can alter, by scores of the row alone.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::capture {
namespace {

constexpr std::int64_t kPromptLength = 70, kRowsThatStay = 20;
constexpr int kIdsGenerated = 4;

// By KV head of layer 0, the positions that are left.
using RowsLeft = std::vector<std::vector<std::int32_t>>;

struct Left {
  RowsLeft of_prompt;  // once the prompt was read
  RowsLeft at_end;     // once all was generated
};

// Of equal tokens, which turn by other angles, only rounding tells the norms in layer 0 apart: l2norm rounds
// it away, and cur ranks by it.
std::vector<std::int32_t> ids_without_repeats(std::int64_t vocab_size) {
  constexpr std::int64_t kFirst = 4, kStep = 37;  // a prime, which does not divide what is left of the ids
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < kPromptLength; ++i)
    ids.push_back(static_cast<std::int32_t>(kFirst + i * kStep % (vocab_size - kFirst)));
  return ids;
}

Left left_by(const std::string& policy, std::int64_t block, Arithmetic arithmetic) {
  static std::map<Arithmetic, std::shared_ptr<const Model>> models;
  auto& model = models[arithmetic];
  if (model == nullptr)
    model =
        Model::load(test::inference_golden("tiny_llama"), test::model_options(arithmetic, DType::kFloat32));
  CaptureOptions options;
  options.prompt_ids = ids_without_repeats(model->config().vocab_size);
  options.policies = {analysis::parse_policy(policy)};
  options.budget = kRowsThatStay;
  options.block_size = block;
  options.generate = kIdsGenerated;
  options.ignore_eos = true;
  options.layers = {0};
  const test::Captured captured = test::run_in_memory(*model, options);
  const auto n_prompt_blocks = static_cast<std::int32_t>((kPromptLength - 1) / block + 1);
  Left left;
  for (int head = 0; head < model->config().n_kv_heads; ++head) {
    const auto evicted_at = captured.recording->trace(0, 0, head).evicted_at;
    auto& of_prompt = left.of_prompt.emplace_back();
    auto& at_end = left.at_end.emplace_back();
    for (std::size_t at = 0; at < evicted_at.size(); ++at) {
      if (at < kPromptLength && (evicted_at[at] < 0 || evicted_at[at] >= n_prompt_blocks))
        of_prompt.push_back(static_cast<std::int32_t>(at));
      if (evicted_at[at] < 0) at_end.push_back(static_cast<std::int32_t>(at));
    }
  }
  return left;
}

std::string with_files(std::string policy) {
  const std::string kFile = "file=";
  if (const auto at = policy.find(kFile); at != std::string::npos)
    policy.insert(at + kFile.size(), test::inference_golden("").string());
  return policy;
}

class AnyBlockSize : public ::testing::TestWithParam<std::tuple<std::string, Arithmetic>> {};

// What is generated comes of the layers above, whose sets do depend on it, so that after the prompt it is
// told of policies alone that look at no key.
TEST_P(AnyBlockSize, LeavesTheSameRowsOfLayerZero) {
  const auto& [policy, arithmetic] = GetParam();
  const bool blind = policy.starts_with("sink") || policy.starts_with("random");
  const Left whole = left_by(with_files(policy), kPromptLength, arithmetic);
  for (const auto& rows : whole.of_prompt) ASSERT_EQ(std::ssize(rows), kRowsThatStay);
  for (const std::int64_t block : {1, 7, 16, 64}) {
    const Left left = left_by(with_files(policy), block, arithmetic);
    EXPECT_EQ(left.of_prompt, whole.of_prompt) << "block " << block;
    if (blind) {
      EXPECT_EQ(left.at_end, whole.at_end) << "block " << block;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ScoresOfTheRowAlone, AnyBlockSize,
                         ::testing::Combine(::testing::Values("sink", "sink:first=1", "random:seed=6",
                                                              "l2norm", "cur", "cur:sinks=3",
                                                              "qfilters:file=tiny_llama.filters.json"),
                                            test::both_arithmetics()),
                         [](const auto& test) {
                           std::string name =
                               std::get<0>(test.param) + "_" + test::name_of(std::get<1>(test.param));
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// The same model, prompt and budget, by a score that is of all rows.
TEST(BlockSize, DecidesWhereTheMeanMoves) {
  EXPECT_NE(left_by("keydiff", 1, Arithmetic::kKernels).of_prompt,
            left_by("keydiff", kPromptLength, Arithmetic::kKernels).of_prompt);
}

}  // namespace
}  // namespace keyscope::capture
