// CUDA against the CPU's kernels on the same models; skipped where there is no CUDA device. All of the
// engine's other tests run there as well with KEYSCOPE_TEST_DEVICE=cuda.

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "capture/model/transformer.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

// Relative Frobenius error that two ways to round may come to.
double tolerance(DType dtype) {
  if (dtype == DType::kFloat32) return 1e-5;
  return dtype == DType::kFloat16 ? 1e-2 : 5e-2;
}

void expect_close(const RowMatrixF& found, const RowMatrixF& expected, double allowed, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  EXPECT_LE((found - expected).norm(), allowed * expected.norm()) << what;
}

class OnCuda : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override {
    try {
      model_ = load({.dtype = std::get<1>(GetParam()), .device = "cuda"});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    options_.prompt_ids = test::random_ids(60, model_->config().vocab_size);
    options_.policies = test::policies({"none"});
    options_.block_size = 16;
    options_.record_values = options_.record_attention = options_.record_logits = true;
  }

  static std::shared_ptr<const Model> load(const ModelOptions& options) {
    return Model::load(test::inference_golden(std::get<0>(GetParam())), options);
  }

  // All that is recorded of a run.
  static void expect_same(const recording::Recording& found, const recording::Recording& expected) {
    const double allowed = tolerance(std::get<1>(GetParam()));
    const auto info = expected.info();
    for (const int layer : info->layers) {
      for (int head = 0; head < info->model.n_kv_heads; ++head) {
        expect_close(found.keys(0, layer, head), expected.keys(0, layer, head), allowed, "keys");
        expect_close(found.values(0, layer, head), expected.values(0, layer, head), allowed, "values");
        const auto received = found.trace(0, layer, head).attention_received;
        const auto as_expected = expected.trace(0, layer, head).attention_received;
        ASSERT_EQ(received.size(), as_expected.size());
        for (std::size_t i = 0; i < received.size(); ++i)
          EXPECT_NEAR(received[i], as_expected[i], 10 * allowed) << "position " << i;
      }
      for (int head = 0; head < info->model.n_heads; ++head) {
        expect_close(found.queries(0, layer, head), expected.queries(0, layer, head), allowed, "queries");
        expect_close(found.attention(0, layer, head), expected.attention(0, layer, head), allowed, "weights");
      }
    }
    expect_close(found.logits(0), expected.logits(0), allowed, "logits");
  }

  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
};

TEST_P(OnCuda, ACaptureIsThatOfTheCpu) {
  const auto cpu = load({.dtype = std::get<1>(GetParam()), .device = "cpu"});
  for (const Schedule schedule : {Schedule::kBlock, Schedule::kLayer}) {
    options_.schedule = schedule;
    expect_same(*test::run_in_memory(*model_, options_).recording,
                *test::run_in_memory(*cpu, options_).recording);
  }
}

TEST_P(OnCuda, WeightsMayComeAndGo) {
  options_.schedule = Schedule::kLayer;
  const auto streamed = load({.dtype = std::get<1>(GetParam()),
                              .device = "cuda",
                              .may_stream = true,
                              .residency = Residency::kStreamed});
  const auto whole = test::run_in_memory(*model_, options_).recording;
  expect_same(*test::run_in_memory(*streamed, options_).recording, *whole);
}

TEST_P(OnCuda, WeightsLieThereAndTheRecordingSaysSo) {
  EXPECT_TRUE(model_->transformer().options().device().is_cuda());
  const auto info = test::run_in_memory(*model_, options_).recording->info();
  EXPECT_EQ(info->provenance.device, model_->device_name());
  EXPECT_THAT(model_->device_name(), ::testing::StartsWith("cuda:0"));
}

INSTANTIATE_TEST_SUITE_P(
    Models, OnCuda,
    ::testing::Combine(::testing::Values("tiny_llama3", "tiny_gemma2", "tiny_qwen2_window", "tiny_phi3"),
                       ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16)),
    [](const auto& test) {
      const DType dtype = std::get<1>(test.param);
      return std::get<0>(test.param) + (dtype == DType::kFloat32    ? "_float32"
                                        : dtype == DType::kBFloat16 ? "_bfloat16"
                                                                    : "_float16");
    });

// What a policy keeps is decided by scores of rows that lie on the device.
TEST(Cuda, EvictsTheSameRows) {
  const test::RandomModel folder;
  std::shared_ptr<const Model> model;
  try {
    model = Model::load(folder.save(), {.device = "cuda"});
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const auto cpu = Model::load(folder.folder(), {.device = "cpu"});
  CaptureOptions options;
  options.prompt_ids = test::random_ids(61, 50);
  std::vector<std::string> policies{"keydiff:split=cake", "snapkv:granularity=layer", "keydiff:critical=on"};
  for (const auto& entry : analysis::registered_policies())
    if (entry.required.empty() && entry.name != "none") policies.push_back(entry.name);
  options.policies = test::policies(policies);
  options.schedule = Schedule::kBlock;
  options.budget = 14;
  options.block_size = 9;
  const auto found = test::run_in_memory(*model, options).recording;
  const auto expected = test::run_in_memory(*cpu, options).recording;
  for (int run = 0; run < std::ssize(policies); ++run)
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head)
        EXPECT_EQ(found->trace(run, layer, head).evicted_at, expected->trace(run, layer, head).evicted_at);
}

}  // namespace
}  // namespace keyscope::capture
