// Models whose weights are packed, against the same models with what those unpack to.

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/matrix_view.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
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

// How a family stores the feed-forward of its experts.
struct ExpertNames {
  const char *prefix, *gate, *up, *down;
};

// Two experts of five for each token, every expert by itself.
void mix(test::RandomModel& model, const ExpertNames& names) {
  const std::pair<const char*, const char*> parts[]{
      {"gate_proj", names.gate}, {"up_proj", names.up}, {"down_proj", names.down}};
  constexpr int kExperts = 5;
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string prefix = layer + names.prefix;
    test::TensorBytes router = model.tensors.at(layer + "mlp.gate_proj.weight");
    router.bytes.resize(router.bytes.size() / static_cast<std::size_t>(router.shape[0]) * kExperts);
    router.shape[0] = kExperts;
    for (const auto& [usual, name] : parts) {
      const auto node = model.tensors.extract(layer + "mlp." + usual + ".weight");
      for (int expert = 0; expert < kExperts; ++expert)
        model.tensors[prefix + "experts." + std::to_string(expert) + "." + name + ".weight"] = node.mapped();
    }
    model.tensors[prefix + "gate.weight"] = router;
  }
}

// Makes one of another family of a Llama.
void turn_into(const std::string& family, test::RandomModel& model) {
  if (family == "mixtral") {
    mix(model, {"block_sparse_moe.", "w1", "w3", "w2"});
    model.config.update({{"model_type", "mixtral"},
                         {"architectures", {"MixtralForCausalLM"}},
                         {"num_local_experts", 5},
                         {"num_experts_per_tok", 2},
                         {"sliding_window", nullptr}});
  } else if (family == "qwen3_moe") {
    mix(model, {"mlp.", "gate_proj", "up_proj", "down_proj"});
    model.config.update({{"model_type", "qwen3_moe"},
                         {"architectures", {"Qwen3MoeForCausalLM"}},
                         {"num_experts", 5},
                         {"num_experts_per_tok", 2},
                         {"moe_intermediate_size", 160}});
    for (const std::string layer : {"model.layers.0.", "model.layers.1."})
      for (const char* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
        model.tensors[layer + name] = {
            "F32", {16}, model.tensors.at(layer + "input_layernorm.weight").bytes.substr(0, 16 * 4)};
  }
}

std::vector<float> keys_and_logits(const Model& model, Schedule schedule) {
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

std::vector<float> unpacked(const StoredWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.n_elements()));
  weight.unpack(0, weight.shape().front(), values.data());
  return values;
}

struct PackedRun {
  std::string packing, family;
  Arithmetic arithmetic;
};

void PrintTo(const PackedRun& run, std::ostream* out) {
  *out << run.family << " in " << run.packing << " by " << test::name_of(run.arithmetic);
}

class PackedModel : public ::testing::TestWithParam<PackedRun> {
 protected:
  PackedModel() {
    for (test::RandomModel* model : {&packed_, &plain_}) turn_into(GetParam().family, *model);
    test::pack_projections(packed_, test::random_packing(GetParam().packing));
    packed_.save();
    const Checkpoint checkpoint(packed_.folder());
    const StoredWeights stored(checkpoint, read_config(packed_.folder()).quantisation);
    for (const std::string& module : test::projections(plain_)) {
      const StoredWeight& weight = *stored.find(module + ".weight");
      auto& tensor = plain_.tensors.at(module + ".weight");
      const std::vector<float> values = unpacked(weight);
      EXPECT_EQ(weight.shape(), tensor.shape);
      EXPECT_EQ(weight.form(), test::random_packing(GetParam().packing).form);
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    }
    plain_.save();
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
    runs.insert(runs.end(), {{packing.name, "llama", Arithmetic::kKernels},
                             {packing.name, "llama", Arithmetic::kAten},
                             {packing.name, "mixtral", Arithmetic::kKernels},
                             {packing.name, "qwen3_moe", Arithmetic::kAten}});
  return runs;
}

INSTANTIATE_TEST_SUITE_P(All, PackedModel, ::testing::ValuesIn(packed_runs()), [](const auto& each) {
  return each.param.family + "_" + each.param.packing + "_" + test::name_of(each.param.arithmetic);
});

// gpt-oss, whose experts of a layer are packed in two tensors, against the same model with what they unpack
// to in bfloat16, which is where Transformers unpacks them to, and loses nothing of MXFP4.
class PackedGptOss : public ::testing::TestWithParam<Arithmetic> {
 protected:
  PackedGptOss() {
    const Checkpoint checkpoint(packed_);
    const ModelConfig config = read_config(packed_);
    const StoredWeights stored(checkpoint, config.quantisation);
    test::TensorMap tensors;
    for (const auto& [name, weight] : stored.tensors()) {
      std::string halves;
      for (const float value : unpacked(*weight)) {
        std::string bytes(sizeof value, '\0');
        std::memcpy(bytes.data(), &value, sizeof value);
        EXPECT_EQ(bytes.substr(0, 2), std::string(2, '\0')) << name << " has more bits than bfloat16";
        halves += bytes.substr(2);
      }
      tensors[name] = {"BF16", weight->shape(), halves};
    }
    auto said = parse_json(config.raw_json);
    said.erase("quantization_config");
    plain_.write("config.json", json_text(said));
    plain_.write("model.safetensors", test::safetensors_of(tensors));
  }

  static std::shared_ptr<const Model> load(const std::filesystem::path& folder, DType dtype,
                                           Residency residency) {
    ModelOptions options = test::model_options(GetParam(), dtype);
    options.may_stream = true;
    options.residency = residency;
    return Model::load(folder, options);
  }

  std::filesystem::path packed_ = test::inference_golden("tiny_gpt_oss_mxfp4");
  test::RandomModel plain_;
};

TEST_P(PackedGptOss, ComputesAsUnpackedToBFloat16) {
  for (const DType dtype : {DType::kAuto, DType::kFloat32}) {
    const auto plain = load(plain_.folder(), dtype, Residency::kWhole),
               packed = load(packed_, dtype, Residency::kWhole),
               streamed = load(packed_, dtype, Residency::kStreamed);
    EXPECT_EQ(packed->dtype_name(), plain->dtype_name());
    EXPECT_EQ(packed->weight_bytes(), plain->weight_bytes());
    EXPECT_EQ(packed->config().quantisation.description(), "mxfp4, 4 bits, groups of 32");
    const auto expected = keys_and_logits(*plain, Schedule::kBlock);
    EXPECT_EQ(keys_and_logits(*packed, Schedule::kBlock), expected);
    EXPECT_EQ(keys_and_logits(*streamed, Schedule::kLayer), keys_and_logits(*plain, Schedule::kLayer));
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, PackedGptOss, test::both_arithmetics(), test::arithmetic_name);

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
