// A model whose layers lie on several devices, and what comes and goes beside their work, on simulated ones:
// everything is as on the CPU by the same arithmetic, bit for bit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/slots.hpp"
#include "capture/model/compute_device.hpp"
#include "capture/model/model.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/model/stored_weights.hpp"
#include "capture/model/transformer.hpp"
#include "capture/model/weights.hpp"
#include "tests/capture/inference/simulated_device.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/recording_comparison.hpp"

namespace keyscope::capture {
namespace {

// Another model, but for where its weights lie.
class SpreadModel : public Model {
 public:
  SpreadModel(std::shared_ptr<const Model> model, Residency residency, const std::vector<at::Device>& devices)
      : model_(std::move(model)),
        checkpoint_(model_->folder()),
        stored_(checkpoint_, model_->config().quantisation),
        residency_(residency) {
    const c10::InferenceMode inference;
    transformer_ = Transformer::make(Arithmetic::kAten, config(),
                                     WeightStore(stored_, config(), model_->transformer().dtype(), residency,
                                                 Placement(devices, config().n_layers)));
  }

  const ModelConfig& config() const override { return model_->config(); }
  const std::filesystem::path& folder() const override { return model_->folder(); }
  const tokenizer::FolderTokenizer& folder_tokenizer() const override { return model_->folder_tokenizer(); }
  const Transformer& transformer() const override { return *transformer_; }
  std::string model_sha256() const override { return model_->model_sha256(); }
  std::string device_name() const override { return model_->device_name(); }
  std::int64_t available_memory() const override { return model_->available_memory(); }
  std::string dtype_name() const override { return model_->dtype_name(); }
  std::string quantisation() const override { return model_->quantisation(); }
  std::int64_t weight_bytes() const override { return model_->weight_bytes(); }
  std::int64_t element_bytes() const override { return model_->element_bytes(); }
  std::int64_t peak_memory() const override { return model_->peak_memory(); }
  std::string library() const override { return model_->library(); }
  std::string arithmetic_name() const override { return model_->arithmetic_name(); }
  Residency residency() const override { return residency_; }
  int threads() const override { return model_->threads(); }
  bool has_head() const override { return model_->has_head(); }
  std::vector<std::string> notes() const override { return model_->notes(); }

 private:
  std::shared_ptr<const Model> model_;
  Checkpoint checkpoint_;  // before the transformer, whose weights lie in it
  StoredWeights stored_;
  Residency residency_;
  std::unique_ptr<Transformer> transformer_;
};

struct Work {
  CaptureOptions options;
  Residency residency = Residency::kWhole;
};

CaptureOptions everything(Schedule schedule, std::vector<analysis::PolicySpec> policies) {
  CaptureOptions options = test::full_cache_options();
  options.policies = std::move(policies);
  options.budget = analysis::Budget(12);
  options.schedule = schedule;
  options.generate = 3;
  options.record_attention = true;
  options.record_logits = true;
  return options;
}

void expect_as_on_the_cpu(const std::filesystem::path& folder, DType dtype, const Work& work) {
  const auto model = Model::load(folder, {.dtype = dtype, .device = "cpu", .arithmetic = Arithmetic::kAten});
  const SpreadModel spread(model, work.residency, test::simulated_devices());
  CaptureOptions options = work.options;
  options.prompt_ids = test::random_ids(40, model->config().vocab_size);
  const auto expected = test::run_in_memory(*model, options);
  test::Streams::all().finish();
  const auto found = test::run_in_memory(spread, options);
  expect_same(*expected.recording, *found.recording, recording::Times::kOwn);
  for (std::size_t run = 0; run < expected.outcomes.size(); ++run)
    EXPECT_EQ(found.outcomes[run].generated, expected.outcomes[run].generated);
  const test::SimulatedWork work_done = test::Streams::all().finish();
  EXPECT_GT(work_done.late_copies, 0);
  EXPECT_THAT(work_done.races, ::testing::IsEmpty());
}

TEST(SpreadModels, HaveAsManyLayersOnEachDevice) {
  const test::RandomModel folder({.n_layers = 4});
  const auto& devices = test::simulated_devices();
  const SpreadModel spread(Model::load(folder.save(), {.device = "cpu"}), Residency::kWhole, devices);
  for (int layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(spread.transformer().options(layer).device(), devices[layer / 2]);
    EXPECT_EQ(spread.transformer().weights().layer(layer)->wq.device(), devices[layer / 2]);
  }
}

using Ways = std::tuple<Schedule, Residency, DType>;
class SpreadPolicies : public ::testing::TestWithParam<Ways> {};

TEST_P(SpreadPolicies, KeepWhatTheyKeepOnTheCpu) {
  const auto [schedule, residency, dtype] = GetParam();
  const test::RandomModel folder({.n_layers = 3});
  auto policies = test::every_policy();
  if (schedule == Schedule::kLayer)
    std::erase_if(policies, [](const auto& policy) { return analysis::read_slots(policy).all_layers(); });
  Work work{everything(schedule, std::move(policies)), residency};
  work.options.record_value_norms = true;
  expect_as_on_the_cpu(folder.save(), dtype, work);
}

INSTANTIATE_TEST_SUITE_P(All, SpreadPolicies,
                         ::testing::Values(Ways(Schedule::kBlock, Residency::kWhole, DType::kFloat32),
                                           Ways(Schedule::kBlock, Residency::kStreamed, DType::kBFloat16),
                                           Ways(Schedule::kLayer, Residency::kStreamed, DType::kFloat32),
                                           Ways(Schedule::kLayer, Residency::kWhole, DType::kBFloat16),
                                           Ways(Schedule::kTogether, Residency::kWhole, DType::kBFloat16)));

TEST(SpreadCaches, HoldWhatTheyHoldOnTheCpu) {
  const test::RandomModel folder({.n_layers = 3});
  folder.save();
  for (const Schedule schedule : {Schedule::kBlock, Schedule::kLayer}) {
    Work work{everything(schedule, test::policies({"none", "keydiff", "snapkv"}))};
    work.options.cache_formats = {{},
                                  {analysis::CacheDtype::kInt4, analysis::CacheScales::kChannel},
                                  {analysis::CacheDtype::kFp8, analysis::CacheScales::kToken}};
    expect_as_on_the_cpu(folder.folder(), DType::kFloat32, work);
    work.options.cache_formats = {{}};
    work.options.cache_positions = true;
    expect_as_on_the_cpu(folder.folder(), DType::kFloat32, work);
    work.options.cache_positions = false;
    work.options.oracle = true;
    expect_as_on_the_cpu(folder.folder(), DType::kFloat32, work);
  }
}

class SpreadFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(SpreadFamilies, GiveWhatTheyGiveOnTheCpu) {
  Work work{everything(Schedule::kBlock, test::policies({"none", "keydiff", "h2o"}))};
  expect_as_on_the_cpu(test::inference_golden(GetParam()), DType::kFloat32, work);
  work.options.schedule = Schedule::kLayer;
  work.residency = Residency::kStreamed;
  expect_as_on_the_cpu(test::inference_golden(GetParam()), DType::kBFloat16, work);
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::inference_golden("")))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, SpreadFamilies, ::testing::ValuesIn(families()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace keyscope::capture
