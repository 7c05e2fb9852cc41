// Layer by layer, and all runs together, are the same capture as block by block.

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/recording.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

class BothSchedules : public ::testing::TestWithParam<std::tuple<std::string, Arithmetic>> {
 protected:
  void SetUp() override {
    const auto& [policy, arithmetic] = GetParam();
    model_ = Model::load(folder_.save(), test::model_options(arithmetic));
    options_.prompt_ids = test::random_ids(61, 50);
    options_.policies = test::policies({"none", policy});
    options_.budget = 14;
    options_.block_size = 9;  // does not divide 61
    options_.generate = 5;
    options_.ignore_eos = true;
    options_.record_values = options_.record_attention = options_.record_logits = true;
    options_.score_last = 20;
  }
  test::Captured run(Schedule schedule) {
    options_.schedule = schedule;
    return test::run_in_memory(*model_, options_);
  }

  test::RandomModel folder_;
  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
};

void expect_near(const RowMatrixF& a, const RowMatrixF& b, const char* what) {
  ASSERT_EQ(a.rows(), b.rows()) << what;
  ASSERT_EQ(a.cols(), b.cols()) << what;
  EXPECT_LE((a - b).cwiseAbs().maxCoeff(), 1e-5 * std::max(1.0F, a.cwiseAbs().maxCoeff())) << what;
}

void expect_same(const test::Captured& blocks, const test::Captured& layers) {
  const auto info = layers.recording->info();
  EXPECT_EQ(info->layers, blocks.recording->info()->layers);
  for (int index = 0; index < 2; ++index) {
    const recording::RunInfo& a = blocks.recording->info()->runs[index];
    const recording::RunInfo& b = info->runs[index];
    EXPECT_EQ(a.block_start, b.block_start);
    EXPECT_EQ(a.n_tokens, b.n_tokens);
    EXPECT_EQ(a.generated.id, b.generated.id);
    EXPECT_EQ(a.top_ids, b.top_ids);
    expect_near(blocks.recording->logits(index), layers.recording->logits(index), "logits");
    for (const int layer : info->layers) {
      const auto x = blocks.recording->statistics(index, layer),
                 y = layers.recording->statistics(index, layer);
      expect_near(x.entropy, y.entropy, "entropy");
      expect_near(x.window, y.window, "window");
      for (int head = 0; head < 4; ++head) {
        expect_near(blocks.recording->queries(index, layer, head),
                    layers.recording->queries(index, layer, head), "queries");
        expect_near(blocks.recording->attention(index, layer, head),
                    layers.recording->attention(index, layer, head), "attention");
      }
      for (int head = 0; head < 2; ++head) {
        expect_near(blocks.recording->keys(index, layer, head), layers.recording->keys(index, layer, head),
                    "keys");
        expect_near(blocks.recording->values(index, layer, head),
                    layers.recording->values(index, layer, head), "values");
        const auto before = blocks.recording->trace(index, layer, head);
        const auto after = layers.recording->trace(index, layer, head);
        EXPECT_EQ(before.evicted_at, after.evicted_at);
        EXPECT_EQ(before.attention_queries, after.attention_queries);
        for (std::size_t i = 0; i < before.attention_received.size(); ++i)
          ASSERT_NEAR(before.attention_received[i], after.attention_received[i], 1e-4);
      }
    }
  }
}

TEST_P(BothSchedules, GiveTheSameRecording) {
  const auto layers = run(Schedule::kLayer);
  EXPECT_EQ(layers.recording->info()->provenance.schedule, "layer");
  expect_same(run(Schedule::kBlock), layers);
}

TEST_P(BothSchedules, TogetherRunsGiveTheSameRecording) {
  const auto together = run(Schedule::kTogether);
  EXPECT_EQ(together.recording->info()->provenance.schedule, "together");
  expect_same(run(Schedule::kBlock), together);
}

TEST_P(BothSchedules, HoldTheSameNumberOfRows) {
  const auto blocks = run(Schedule::kBlock), layers = run(Schedule::kLayer);
  for (std::size_t index = 0; index < 2; ++index)
    EXPECT_EQ(blocks.outcomes[index].peak_cache_rows, layers.outcomes[index].peak_cache_rows);
}

INSTANTIATE_TEST_SUITE_P(Policies, BothSchedules,
                         ::testing::Combine(::testing::Values("keydiff", "sink", "tova", "h2o", "snapkv",
                                                              "l2norm", "random", "cur"),
                                            test::both_arithmetics()),
                         [](const auto& test) {
                           return std::get<0>(test.param) + test::name_of(std::get<1>(test.param));
                         });

class LayerSchedule : public ::testing::TestWithParam<Arithmetic> {};

// More tokens than go through a layer's products at once, in blocks that do not divide their number.
TEST_P(LayerSchedule, PromptsLongerThanAChunkAreTheSame) {
  const test::RandomModel folder({.n_layers = 2, .max_positions = 4000});
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  CaptureOptions options;
  options.prompt_ids = test::random_ids(2500, 50);
  options.policies = test::policies({"keydiff"});
  options.budget = 100;
  options.block_size = 96;
  const auto blocks = test::run_in_memory(*model, options);
  options.schedule = Schedule::kLayer;
  const auto layers = test::run_in_memory(*model, options);
  for (int layer = 0; layer < 2; ++layer)
    EXPECT_EQ(blocks.recording->trace(0, layer, 1).evicted_at,
              layers.recording->trace(0, layer, 1).evicted_at);
}

// One layer's cache at a time, unless tokens are fed back.
TEST_P(LayerSchedule, HoldsOneLayersCache) {
  const test::RandomModel folder({.n_layers = 4});
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  CaptureOptions options;
  options.prompt_ids = test::random_ids(50, 50);
  options.policies = test::policies({"keydiff"});
  options.budget = 16;
  options.block_size = 8;
  const std::int64_t all = test::run_in_memory(*model, options).outcomes[0].peak_cache_bytes;
  options.schedule = Schedule::kLayer;
  EXPECT_EQ(4 * test::run_in_memory(*model, options).outcomes[0].peak_cache_bytes, all);
  options.generate = 3;
  options.ignore_eos = true;
  EXPECT_GE(test::run_in_memory(*model, options).outcomes[0].peak_cache_bytes, all);
}

TEST_P(LayerSchedule, StreamedWeightsGiveTheSameNumbers) {
  const test::RandomModel folder({.n_layers = 3});
  const auto& path = folder.save();
  CaptureOptions options;
  options.prompt_ids = test::random_ids(50, 50);
  options.policies = test::policies({"none"});
  options.schedule = Schedule::kLayer;
  options.generate = 4;
  options.ignore_eos = true;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    ModelOptions model_options = test::model_options(GetParam(), dtype);
    model_options.residency = Residency::kWhole;
    const auto whole = Model::load(path, model_options);
    model_options.may_stream = true;
    model_options.residency = Residency::kStreamed;
    const auto streamed = Model::load(path, model_options);
    const auto a = test::run_in_memory(*whole, options), b = test::run_in_memory(*streamed, options);
    EXPECT_EQ(a.outcomes[0].generated, b.outcomes[0].generated);
    EXPECT_EQ(a.recording->keys(0, 2, 1), b.recording->keys(0, 2, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, LayerSchedule, test::both_arithmetics(), test::arithmetic_name);

// Architectures whose layers are of several kinds: borrowed keys and inputs of layers, experts, states,
// latent attention, windows.
class GenerationInOnePass : public ::testing::TestWithParam<std::tuple<std::string, Arithmetic>> {};

// Five runs are one more than a pass takes. Where our own loops compute all, the last bit is the same.
TEST_P(GenerationInOnePass, GivesEveryRunWhatItGetsAlone) {
  const auto& [name, arithmetic] = GetParam();
  const auto model =
      Model::load(test::inference_golden(name), test::model_options(arithmetic, DType::kFloat32));
  const std::vector<std::string> policies{"none", "keydiff", "sink", "l2norm", "random"};
  CaptureOptions options;
  options.prompt_ids = test::random_ids(41, 48);
  options.policies = test::policies(policies);
  options.budget = 12;
  options.block_size = 8;
  options.generate = 7;
  options.ignore_eos = true;
  options.schedule = Schedule::kLayer;
  const auto all = test::run_in_memory(*model, options);
  for (std::size_t run = 0; run < policies.size(); ++run) {
    options.policies = test::policies({policies[run]});
    const auto alone = test::run_in_memory(*model, options);
    const auto index = static_cast<int>(run);
    EXPECT_EQ(alone.outcomes[0].generated, all.outcomes[run].generated) << policies[run];
    EXPECT_EQ(alone.recording->info()->runs[0].block_start, all.recording->info()->runs[run].block_start);
    for (const int layer : alone.recording->info()->layers) {
      if (!alone.recording->info()->has_keys(layer)) continue;
      EXPECT_EQ(alone.recording->trace(0, layer, 0).evicted_at,
                all.recording->trace(index, layer, 0).evicted_at);
      const RowMatrixF expected = alone.recording->queries(0, layer, 0);
      const RowMatrixF found = all.recording->queries(index, layer, 0);
      expect_near(expected, found, "queries");
      if (arithmetic == Arithmetic::kKernels && name == "tiny_llama") {
        EXPECT_EQ((expected - found).cwiseAbs().maxCoeff(), 0) << policies[run] << ", layer " << layer;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, GenerationInOnePass,
    ::testing::Combine(::testing::Values("tiny_llama", "tiny_gemma4", "tiny_gemma4_moe", "tiny_qwen3_next",
                                         "tiny_gpt_oss", "tiny_deepseek2"),
                       test::both_arithmetics()),
    [](const auto& test) { return std::get<0>(test.param) + test::name_of(std::get<1>(test.param)); });

// Stops a capture by layers after some blocks of some layer.
class CutShort : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = Model::load(folder_.save(), {});
    options_.prompt_ids = test::random_ids(40, 50);
    options_.policies = test::policies({"none", "keydiff"});
    options_.budget = 12;
    options_.block_size = 8;  // five blocks
    options_.schedule = Schedule::kLayer;
    whole_ = test::run_in_memory(*model_, options_);
  }

  // Cancels once `n` blocks of a layer have been through.
  std::shared_ptr<recording::Recording> capture(int n) {
    const std::string path = (scratch_.path() / fmt::format("cut{}.h5", n)).string();
    std::filesystem::remove(path);
    const auto writer = recording::make_recording_writer(path, false);
    CaptureControl control;
    int seen = 0;
    control.on_progress = [&](const CaptureProgress&) {
      if (++seen == n) control.cancel();
    };
    std::array<recording::RecordSink*, 1> sinks{writer.get()};
    EXPECT_THROW(run_capture(*model_, options_, sinks, control), Cancelled);
    return recording::open_recording(path);
  }

  test::RandomModel folder_{{.n_layers = 3}};
  test::ScratchFolder scratch_;
  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
  test::Captured whole_;
};

TEST_F(CutShort, ShowsTheLayersThatAllRunsHaveBeenThrough) {
  const auto recording = capture(2 * 10 + 7);  // two layers of both runs, one and a half of the third
  const auto info = recording->info();
  EXPECT_FALSE(info->complete);
  EXPECT_EQ(info->layers, (std::vector<int>{0, 1}));
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(info->runs[run].blocks_done, 5);
    for (int layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(recording->keys(run, layer, 1), whole_.recording->keys(run, layer, 1));
      const auto found = recording->trace(run, layer, 0), expected = whole_.recording->trace(run, layer, 0);
      EXPECT_EQ(found.evicted_at, expected.evicted_at);
      EXPECT_EQ(found.attention_received, expected.attention_received);
      EXPECT_EQ(recording->statistics(run, layer).gini, whole_.recording->statistics(run, layer).gini);
    }
    EXPECT_THROW(recording->keys(run, 2, 0), FileError);
  }
}

TEST_F(CutShort, ShowsTheFirstLayerAsFarAsItCame) {
  const auto recording = capture(5 + 3);  // the first layer of `none`, three blocks of it under keydiff
  const auto info = recording->info();
  EXPECT_EQ(info->layers, (std::vector<int>{0}));
  EXPECT_EQ(info->runs[0].blocks_done, 5);
  EXPECT_EQ(info->runs[1].blocks_done, 3);
  EXPECT_EQ(info->runs[1].n_tokens, 24);
  EXPECT_EQ(recording->keys(1, 0, 0), whole_.recording->keys(1, 0, 0, 0, 24));
}

TEST_F(CutShort, KeepsEveryBlockWhereverItStops) {
  for (const int n : {1, 4, 5, 6, 9, 10, 11, 15, 19, 20, 29}) {
    const auto recording = capture(n);
    const auto info = recording->info();
    const int n_complete = std::max(n / 10, 1);
    EXPECT_EQ(static_cast<int>(info->layers.size()), n_complete) << n;
    EXPECT_EQ(info->runs[0].blocks_done, std::min(n, 5)) << n;
    EXPECT_EQ(info->runs[1].blocks_done, std::clamp(n - 5, 0, 5)) << n;
  }
}

// A device is a block ahead of what the host has seen of it.
TEST_F(CutShort, KeepsWhatADeviceHadBegun) {
  model_ = Model::load(folder_.save(), test::model_options(Arithmetic::kAten));
  for (const int n : {1, 4, 5, 6, 8}) {
    const auto runs = capture(n)->info()->runs;
    const auto n_blocks = runs[0].blocks_done + runs[1].blocks_done;
    EXPECT_EQ(n_blocks, n % 5 == 0 ? n : n + 1) << n;
  }
}

}  // namespace
}  // namespace keyscope::capture
