// Models whose weights are packed, against the same models with what those unpack to.

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/matrix_view.hpp"
#include "base/errors.hpp"
#include "capture/model/config.hpp"
#include "capture/model/stored_weights.hpp"
#include "capture/model/transformer.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_packing.hpp"

namespace keyscope::capture {
namespace {

test::RandomModel projecting_model() {
  return test::RandomModel({.n_layers = 2,
                            .n_heads = 4,
                            .n_kv_heads = 2,
                            .head_dim = 16,
                            .hidden_size = 96,
                            .intermediate_size = 160,
                            .vocab_size = 40});
}

struct PackedRun {
  std::string packing;
  Arithmetic arithmetic;
};

void PrintTo(const PackedRun& run, std::ostream* out) {
  *out << run.packing << " by " << test::name_of(run.arithmetic);
}

class PackedModel : public ::testing::TestWithParam<PackedRun> {
 protected:
  PackedModel() {
    test::pack_projections(packed_, test::random_packing(GetParam().packing));
    packed_.save();
    const Checkpoint checkpoint(packed_.folder());
    const StoredWeights stored(checkpoint, read_config(packed_.folder()).quantisation);
    for (const std::string& module : test::projections(plain_)) {
      const StoredWeight& weight = *stored.find(module + ".weight");
      auto& tensor = plain_.tensors.at(module + ".weight");
      std::vector<float> values(static_cast<std::size_t>(weight.n_elements()));
      weight.unpack(0, weight.shape().front(), values.data());
      EXPECT_EQ(weight.shape(), tensor.shape);
      EXPECT_EQ(weight.form(), test::random_packing(GetParam().packing).form);
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    }
    plain_.save();
  }

  static std::vector<float> keys_and_logits(const Model& model, Schedule schedule) {
    CaptureOptions options;
    options.prompt_ids = test::random_ids(20, 40);
    options.policies = test::policies({"none"});
    options.block_size = 8;
    options.record_logits = true;
    options.score_last = 100;
    options.schedule = schedule;
    const auto recording = test::run_in_memory(model, options).recording;
    std::vector<float> all;
    const auto add = [&](const RowMatrixF& rows) {
      all.insert(all.end(), rows.data(), rows.data() + rows.size());
    };
    add(recording->logits(0));
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head) add(recording->keys(0, layer, head));
    return all;
  }

  test::RandomModel packed_ = projecting_model(), plain_ = projecting_model();
};

TEST_P(PackedModel, ComputesAsOneWithTheUnpackedWeights) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const ModelOptions options = test::model_options(GetParam().arithmetic, dtype);
    const auto packed = Model::load(packed_.folder(), options), plain = Model::load(plain_.folder(), options);
    EXPECT_EQ(packed->weight_bytes(), plain->weight_bytes());
    EXPECT_EQ(keys_and_logits(*packed, Schedule::kBlock), keys_and_logits(*plain, Schedule::kBlock));
  }
}

TEST_P(PackedModel, ComputesTheSameLayerByLayer) {
  ModelOptions options = test::model_options(GetParam().arithmetic, DType::kFloat32);
  const auto plain = Model::load(plain_.folder(), options);
  options.may_stream = true;
  options.residency = Residency::kStreamed;
  const auto packed = Model::load(packed_.folder(), options);
  EXPECT_EQ(packed->residency(), Residency::kStreamed);
  EXPECT_EQ(keys_and_logits(*packed, Schedule::kLayer), keys_and_logits(*plain, Schedule::kLayer));
}

TEST_P(PackedModel, TheRecordingSaysHowItWasPacked) {
  const auto model = Model::load(packed_.folder(), test::model_options(GetParam().arithmetic));
  CaptureOptions options = test::full_cache_options();
  options.prompt_ids = test::random_ids(10, 40);
  const test::ScratchFolder scratch;
  const std::string path = test::capture_to(scratch.file("out.h5"), options, *model);
  const auto provenance = recording::open_recording(path)->info()->provenance;
  EXPECT_EQ(provenance.quantisation, model->config().quantisation.description());
  EXPECT_THAT(provenance.quantisation, ::testing::Not(::testing::IsEmpty()));
}

std::vector<PackedRun> packed_runs() {
  std::vector<PackedRun> runs;
  for (const test::RandomPacking& packing : test::random_packings())
    for (const Arithmetic arithmetic : {Arithmetic::kKernels, Arithmetic::kAten})
      runs.push_back({packing.name, arithmetic});
  return runs;
}

INSTANTIATE_TEST_SUITE_P(All, PackedModel, ::testing::ValuesIn(packed_runs()), [](const auto& each) {
  return each.param.packing + "_" + test::name_of(each.param.arithmetic);
});

// Where nothing says what weights were packed from, those that are stored as they are say it.
TEST(PackedModelDtype, IsThatOfWhatIsPlain) {
  test::RandomModel model = projecting_model();
  test::pack_projections(model, test::random_packing("awq"));
  for (auto& [name, tensor] : model.tensors) {
    if (tensor.dtype != "F32" || name.ends_with("scales")) continue;
    std::string halves;
    for (std::size_t i = 0; i < tensor.bytes.size(); i += 4) halves += tensor.bytes.substr(i + 2, 2);
    tensor = {"BF16", tensor.shape, halves};
  }
  model.config.erase("torch_dtype");
  EXPECT_EQ(Model::load(model.save(), {.device = "cpu"})->dtype_name(), "bfloat16");
  model.config["torch_dtype"] = "float32";
  EXPECT_EQ(Model::load(model.save(), {.device = "cpu"})->dtype_name(), "float32");
}

TEST(PackedModelBias, OneThatIsNotZeroHasNoPlace) {
  test::RandomModel model = projecting_model();
  test::pack_projections(model, test::random_packing("gptq"));
  EXPECT_NO_THROW(Model::load(model.save(), {.device = "cpu"}));
  model.tensors.at("model.layers.1.mlp.up_proj.bias").bytes[2] = 1;
  EXPECT_THAT([&] { Model::load(model.save(), {.device = "cpu"}); },
              ::testing::ThrowsMessage<FileError>(::testing::HasSubstr("up_proj.bias\" has no place")));
}

}  // namespace
}  // namespace keyscope::capture
