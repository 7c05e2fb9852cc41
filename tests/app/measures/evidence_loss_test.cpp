#include "app/measures/evidence_loss.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::measures {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

capture::CaptureOptions evidence_options() {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff", "sink"});
  options.budget = 12;
  options.evidence = {{20, 23}, {4, 6}, {5, 7}};
  return options;
}

TEST(Evidence, IsWhatTheCaptureWasTold) {
  const auto captured = test::run_in_memory(test::tiny_model(), evidence_options());
  EXPECT_THAT(evidence_tokens(*captured.recording->info()), ElementsAre(4, 5, 6, 20, 21, 22));
}

TEST(Evidence, OfOtherConfigurationsThereIsNone) {
  recording::RecordingInfo info =
      *test::run_in_memory(test::tiny_model(), evidence_options()).recording->info();
  for (const char* configuration : {"", "[]", "{}", "no JSON", R"({"evidence": 3})", R"({"evidence": [[1]]})",
                                    R"({"evidence": [[1, 2, 3]]})", R"({"evidence": [["a", "b"]]})",
                                    R"({"evidence": [[0, 1000000]]})", R"({"evidence": [[-1, 2]]})"}) {
    info.provenance.configuration = configuration;
    EXPECT_THAT(evidence_tokens(info), IsEmpty()) << configuration;
  }
}

// The slow, obvious reference: all rows of all heads of all layers.
std::optional<EvidenceLoss> first_of_all(const recording::Recording& recording, int run,
                                         std::int64_t window = 0) {
  std::optional<EvidenceLoss> first;
  const auto info = recording.info();
  const auto before = [](const EvidenceLoss& a, const EvidenceLoss& b) {
    return std::tie(a.block, a.layer, a.kv_head, a.position) <
           std::tie(b.block, b.layer, b.kv_head, b.position);
  };
  for (const int layer : info->layers)
    for (int head = 0; head < info->model.heads(layer).n_kv_heads; ++head) {
      const auto mine = recording.trace(run, layer, head).evicted_at;
      for (const std::int32_t row : evidence_tokens(*info)) {
        const bool passed = window > 0 && row <= info->n_prompt() - window;  // by the prompt's end
        if (mine[row] < 0 || passed) continue;
        const EvidenceLoss loss{layer, head, mine[row], row};
        if (!first || before(loss, *first)) first = loss;
      }
    }
  return first;
}

TEST(EvidenceLosses, AreTheFirstOfEveryRun) {
  const auto captured = test::run_in_memory(test::tiny_model(), evidence_options());
  const auto losses = first_evidence_losses(*captured.recording);
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_EQ(losses[0], std::nullopt);
  for (const int run : {1, 2}) {
    ASSERT_TRUE(losses[run]);
    EXPECT_EQ(losses[run], first_of_all(*captured.recording, run));
  }
}

TEST(EvidenceLosses, WhatAWindowHasPassedIsNotTheirs) {
  test::RandomModel folder;
  folder.config["model_type"] = "mistral";
  folder.config["architectures"] = nlohmann::json::array({"MistralForCausalLM"});
  folder.config["sliding_window"] = 24;
  const auto model = capture::Model::load(folder.save(), {.dtype = capture::DType::kFloat32});
  capture::CaptureOptions options = evidence_options();
  options.evidence.push_back({29, 34});  // which the last query still sees
  const auto captured = test::run_in_memory(*model, options);
  const auto losses = first_evidence_losses(*captured.recording);
  for (const int run : {1, 2}) {
    ASSERT_TRUE(losses[run]);
    EXPECT_EQ(losses[run], first_of_all(*captured.recording, run, 24));
  }
}

TEST(EvidenceLosses, WithoutEvidenceNothingIsRead) {
  capture::CaptureOptions options = evidence_options();
  options.evidence.clear();
  const auto captured = test::run_in_memory(test::tiny_model(), options);
  const auto losses =
      first_evidence_losses(*captured.recording, [] { ADD_FAILURE() << "a head was looked at"; });
  EXPECT_THAT(losses, ElementsAre(std::nullopt, std::nullopt, std::nullopt));
}

}  // namespace
}  // namespace keyscope::measures
