#include "capture/model/model.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/model/transformer.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {

namespace {

using test::RandomModel;
using test::safetensors_of;
using test::TensorMap;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path kDemoModel = KEYSCOPE_SOURCE_DIR "/assets/demo_model";
const std::string kEmbedding = "model.embed_tokens.weight";

std::vector<float> logits_of(const Model& model) {
  const std::vector<std::int32_t> ids{3, 1, 4};
  const at::Tensor logits = model.transformer().logits(model.transformer().embed(ids)).contiguous();
  const float* data = logits.const_data_ptr<float>();
  return {data, data + logits.numel()};
}

std::string complaint(const std::filesystem::path& folder, const ModelOptions& options = {}) {
  try {
    Model::load(folder, options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Model, LoadsAFolder) {
  const RandomModel folder;
  const auto model = Model::load(folder.save(), {.device = "cpu"});
  EXPECT_EQ(model->config().n_layers, 2);
  EXPECT_EQ(model->dtype_name(), "float32");
  EXPECT_EQ(model->device_name(), "cpu");
  EXPECT_EQ(model->tokenizer(), nullptr);
  EXPECT_GE(model->threads(), 1);
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : folder.tensors) bytes += static_cast<std::int64_t>(tensor.bytes.size());
  EXPECT_EQ(model->weight_bytes(), bytes);
}

TEST(Model, ATiedPairMayBeStoredUnderEitherNameOrBoth) {
  RandomModel folder;
  const auto expected = logits_of(*Model::load(folder.save(), {}));
  auto embedding = folder.tensors.extract(kEmbedding);
  embedding.key() = "lm_head.weight";
  folder.tensors.insert(std::move(embedding));
  EXPECT_EQ(logits_of(*Model::load(folder.save(), {})), expected);
  folder.tensors[kEmbedding] = folder.tensors["lm_head.weight"];
  EXPECT_EQ(logits_of(*Model::load(folder.save(), {})), expected);
}

TEST(Model, ATiedPairOfTwoMatricesIsAContradiction) {
  RandomModel folder;
  folder.tensors["lm_head.weight"] = folder.tensors[kEmbedding];
  folder.tensors["lm_head.weight"].bytes[5] ^= 1;
  EXPECT_THAT(complaint(folder.save()), HasSubstr("tie_word_embeddings"));
}

TEST(Model, UnalignedWeightsAreCopied) {
  const RandomModel folder;
  const auto expected = logits_of(*Model::load(folder.save(), {}));
  std::string file = safetensors_of(folder.tensors, 4);
  for (std::size_t pad = 0; pad < 4; ++pad) {
    nlohmann::ordered_json header;
    std::string data(pad, 'x');
    if (pad > 0)
      header["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
          {"dtype", "U8"}, {"shape", {pad}}, {"data_offsets", {0, pad}}};
    for (const auto& [name, tensor] : folder.tensors) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    folder.write("model.safetensors", safetensors_of(json_text(header), data));
    EXPECT_EQ(logits_of(*Model::load(folder.folder(), {})), expected) << pad;
  }
}

TEST(Model, ComputesInTheDtypeThatIsAsked) {
  RandomModel folder;
  folder.save();
  EXPECT_EQ(Model::load(folder.folder(), {.dtype = DType::kBFloat16})->dtype_name(), "bfloat16");
  EXPECT_EQ(Model::load(folder.folder(), {.dtype = DType::kFloat16})->dtype_name(), "float16");
  folder.config["torch_dtype"] = "bfloat16";
  const auto model = Model::load(folder.save(), {.device = "cpu"});
  EXPECT_EQ(model->dtype_name(), "bfloat16");
  EXPECT_EQ(Model::load(folder.folder(), {.dtype = DType::kFloat32})->dtype_name(), "float32");
  EXPECT_EQ(Model::load(folder.folder(), {.dtype = DType::kFloat32})->weight_bytes(),
            2 * model->weight_bytes());
}

TEST(Model, NamesTheTensorThatIsMissing) {
  RandomModel folder;
  folder.tensors.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(complaint(folder.save()),
              AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight"), HasSubstr("[40, 24]")));
}

TEST(Model, RefusesAConfigurationThatContradictsItsTensors) {
  const auto with = [](const char* field, const nlohmann::ordered_json& value) {
    RandomModel folder;
    folder.config[field] = value;
    return complaint(folder.save());
  };
  EXPECT_THAT(with("vocab_size", 51),
              AllOf(HasSubstr(kEmbedding), HasSubstr("[50, 24]"), HasSubstr("[51, 24]")));
  EXPECT_THAT(with("num_hidden_layers", 3), HasSubstr("model.layers.2."));
  EXPECT_THAT(with("num_hidden_layers", 1), HasSubstr("model.layers.1."));
  EXPECT_THAT(with("num_key_value_heads", 4), HasSubstr("k_proj"));
  EXPECT_THAT(with("attention_bias", true), HasSubstr("q_proj.bias"));
  EXPECT_THAT(with("tie_word_embeddings", false), HasSubstr("lm_head.weight"));
  EXPECT_THAT(with("intermediate_size", 1 << 30), HasSubstr("mlp."));
}

// Eight hundred million tensors are not listed before the first is missed.
TEST(Model, RefusesAnyNumberOfLayersAndExpertsAtTheFirstThatIsMissing) {
  RandomModel folder;
  folder.config.update({{"model_type", "mixtral"},
                        {"architectures", {"MixtralForCausalLM"}},
                        {"num_hidden_layers", 4096},
                        {"num_local_experts", 65'536},
                        {"num_experts_per_tok", 2}});
  EXPECT_THAT(complaint(folder.save()),
              AllOf(HasSubstr("model.layers.0.block_sparse_moe."), HasSubstr("is missing")));
}

TEST(Model, LeavesOutBiasesOfNothingButZerosThatAPackerWrote) {
  const auto with_bias = [](std::int64_t n, char byte) {
    RandomModel folder;
    folder.config["quantization_config"] = {{"quant_method", "fp8"}};
    folder.tensors["model.layers.0.self_attn.q_proj.bias"] = {
        "F32", {n}, std::string(static_cast<std::size_t>(4 * n), byte)};
    return complaint(folder.save());
  };
  EXPECT_EQ(with_bias(32, '\0'), "");
  EXPECT_EQ(with_bias(0, '\0'), "");
  EXPECT_THAT(with_bias(32, '\1'), AllOf(HasSubstr("q_proj.bias"), HasSubstr("has no place")));
}

TEST(Model, RefusesTensorsOfTheDecoderThatTheConfigurationDoesNotKnow) {
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.q_norm.weight",
        "model.layers.1.mlp.down_proj.weight_scale_inv", "model.norm.bias", "model.embed_tokens.scales"}) {
    RandomModel folder;
    folder.tensors[name] = {"F32", {32}, std::string(128, '\0')};
    EXPECT_THAT(complaint(folder.save()), HasSubstr(name));
  }
}

TEST(Model, LeavesOutWhatIsNoPartOfTheDecoderAndSaysSo) {
  RandomModel folder;
  const auto expected = logits_of(*Model::load(folder.save(), {}));
  const std::int64_t bytes = Model::load(folder.folder(), {})->weight_bytes();
  EXPECT_THAT(Model::load(folder.folder(), {})->notes(), IsEmpty());
  for (const char* name :
       {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.cos_cached",
        "v_head.summary.weight", "score.weight", "model.layers.0.self_attn.q_proj.lora_A.weight",
        "model.layers.0.self_attn.k_proj.k_scale", "visual.patch_embed.proj.weight"})
    folder.tensors[name] = {"I64", {4}, std::string(32, '\0')};
  const auto model = Model::load(folder.save(), {});
  EXPECT_EQ(logits_of(*model), expected);
  EXPECT_EQ(model->weight_bytes(), bytes);
  ASSERT_EQ(model->notes().size(), 1U);
  EXPECT_THAT(model->notes()[0], AllOf(HasSubstr("7 of its tensors"), HasSubstr("rotary_emb.inv_freq")));
}

// Renames tensors: "model." becomes `prefix`.
TensorMap renamed(const TensorMap& tensors, const std::string& prefix) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors)
    result[name.starts_with("model.") ? prefix + name.substr(6) : name] = tensor;
  return result;
}

TEST(Model, TensorsMayHaveAnyPrefix) {
  for (const bool tied : {true, false}) {
    const RandomModel whole({.tied = tied});
    const auto expected = logits_of(*Model::load(whole.save(), {}));
    for (const char* prefix :
         {"", "language_model.model.", "model.language_model.", "base_model.model.model."}) {
      RandomModel folder({.tied = tied});
      folder.tensors = renamed(whole.tensors, prefix);
      EXPECT_EQ(logits_of(*Model::load(folder.save(), {})), expected) << prefix;
      EXPECT_EQ(Model::load(folder.folder(), {})->weight_bytes(),
                Model::load(whole.folder(), {})->weight_bytes());
    }
  }
}

TEST(Model, AModelSavedWithoutItsHeadGivesNoNextToken) {
  RandomModel folder({.tied = false});
  folder.tensors.erase("lm_head.weight");
  EXPECT_THAT(complaint(folder.save()), HasSubstr("lm_head.weight"));  // LlamaForCausalLM has one
  folder.config["architectures"] = {"LlamaModel"};
  auto model = Model::load(folder.save(), {});
  EXPECT_FALSE(model->has_head());
  ASSERT_EQ(model->notes().size(), 1U);
  EXPECT_THAT(model->notes()[0], HasSubstr("no lm_head.weight"));
  folder.tensors = renamed(folder.tensors, "");
  EXPECT_FALSE(Model::load(folder.save(), {})->has_head());
  RandomModel tied;
  tied.config["architectures"] = {"LlamaModel"};
  tied.tensors = renamed(tied.tensors, "");
  model = Model::load(tied.save(), {});
  EXPECT_TRUE(model->has_head());
  EXPECT_THAT(model->notes(), IsEmpty());
}

TEST(Model, AnIndexMayNameATiedHeadThatNoFileHolds) {
  const RandomModel folder;
  nlohmann::json map;
  for (const auto& [name, tensor] : folder.tensors) map[name] = "a.safetensors";
  map["lm_head.weight"] = "a.safetensors";
  map["model.rotary_emb.inv_freq"] = "gone.safetensors";
  const auto expected = logits_of(*Model::load(folder.save(), {}));
  std::filesystem::remove(folder.folder() / "model.safetensors");
  folder.write("a.safetensors", safetensors_of(folder.tensors));
  folder.write("model.safetensors.index.json", json_text(nlohmann::json{{"weight_map", map}}));
  EXPECT_EQ(logits_of(*Model::load(folder.folder(), {})), expected);
  map["model.layers.1.mlp.up_proj.weight"] = "b.safetensors";
  folder.write("model.safetensors.index.json", json_text(nlohmann::json{{"weight_map", map}}));
  EXPECT_EQ(complaint(folder.folder()), "");  // it is in the other file
  TensorMap fewer = folder.tensors;
  fewer.erase("model.layers.1.mlp.up_proj.weight");
  folder.write("a.safetensors", safetensors_of(fewer));
  EXPECT_THAT(complaint(folder.folder()), AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight is missing"),
                                                HasSubstr("b.safetensors, which is not in the folder")));
}

TEST(Model, AnAutomaticDtypeIsThatOfTheWeights) {
  RandomModel folder;
  folder.config["torch_dtype"] = "auto";
  EXPECT_EQ(Model::load(folder.save(), {})->dtype_name(), "float32");
  for (auto& [name, tensor] : folder.tensors) {
    tensor.dtype = "BF16";
    tensor.bytes.resize(tensor.bytes.size() / 2);
  }
  EXPECT_EQ(Model::load(folder.save(), {})->dtype_name(), "bfloat16");
}

TEST(Model, RefusesWeightsThatAreNoFloats) {
  RandomModel folder;
  folder.tensors["model.norm.weight"] = {"I32", {24}, std::string(96, '\0')};
  EXPECT_THAT(complaint(folder.save()), AllOf(HasSubstr("model.norm.weight"), HasSubstr("I32")));
}

// They would be lost in the softmax: no number that comes out shows them.
TEST(Model, RefusesSinksThatAreNoNumbers) {
  const std::filesystem::path golden = test::inference_golden("tiny_gpt_oss");
  const std::string whole = read_file(golden / "model.safetensors");
  const Checkpoint checkpoint(golden);
  const auto sinks = checkpoint.find("model.layers.1.self_attn.sinks")->data;
  const std::size_t at =
      whole.find(std::string_view(reinterpret_cast<const char*>(sinks.data()), sinks.size()));
  ASSERT_NE(at, whole.npos);
  const test::ScratchFolder folder;
  std::filesystem::copy(golden / "config.json", folder.file("config.json"));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float sink : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &sink, sizeof sink);
    write_file(folder.file("model.safetensors"), bytes, true);
    if (sink < 0)
      EXPECT_EQ(complaint(folder.path()), "") << "no sink at all";
    else
      EXPECT_THAT(complaint(folder.path()), HasSubstr("sinks of layer 1 hold NaN or infinity"));
  }
}

TEST(Model, SaysWhatIsWrongWithAFolder) {
  const RandomModel folder;
  EXPECT_THAT(complaint(folder.folder() / "absent"), HasSubstr("absent"));
  EXPECT_THAT(complaint(folder.folder()), HasSubstr("config.json"));
  folder.save();
  const std::string whole = safetensors_of(folder.tensors);
  folder.write("model.safetensors", whole.substr(0, whole.size() - 100));
  EXPECT_THAT(complaint(folder.folder()), AllOf(HasSubstr("model.safetensors"), HasSubstr("cut short")));
}

TEST(Model, SaysThatThereIsNoSuchDevice) {
  const RandomModel folder;
  EXPECT_THAT(complaint(folder.save(), {.device = "toaster"}), HasSubstr("toaster"));
}

TEST(Model, HasTwoArithmeticsOnTheCpu) {
  const RandomModel folder;
  const auto arithmetic = [&](std::optional<Arithmetic> wanted) {
    return Model::load(folder.save(), {.device = "cpu", .arithmetic = wanted})->transformer().arithmetic();
  };
  EXPECT_EQ(arithmetic({}), Arithmetic::kKernels);
  EXPECT_EQ(arithmetic(Arithmetic::kAten), Arithmetic::kAten);
}

// One file whose weights come in a single piece, and one of several.
TEST(Model, HashesWeightsBehindTheirHeaders) {
  for (const std::filesystem::path& folder : {test::inference_golden("tiny_llama"), kDemoModel}) {
    const auto model = Model::load(folder, {});
    std::ifstream stream(folder / "model.safetensors", std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    Sha256 hash;
    hash.add(model->config().raw_json);
    hash.add("model.safetensors");
    hash.add(std::string_view("\0", 1));
    hash.add(std::to_string(file.size()));
    hash.add(std::string_view("\0", 1));
    hash.add(std::string_view(file).substr(8));  // all but the header's length
    std::vector<std::int64_t> hashed;
    const auto progress = [&](std::int64_t n_hashed, std::int64_t n_bytes) {
      hashed.push_back(n_hashed);
      EXPECT_EQ(n_bytes, Checkpoint(folder).data_bytes());
    };
    EXPECT_EQ(sha256_with_weights(*model, progress), hash.hex());
    EXPECT_TRUE(std::ranges::is_sorted(hashed));
    EXPECT_EQ(hashed.back(), Checkpoint(folder).data_bytes());
    EXPECT_EQ(hashed.size() > 1, folder == kDemoModel);
  }
}

// As a script would compute it: config.json, then name, size and header of each weight file.
TEST(Model, HashesConfigurationAndHeaders) {
  EXPECT_EQ(Model::load(test::inference_golden("tiny_llama"), {})->model_sha256(),
            "5f9d21b293b858b2e4ed81fe50e33d5a409b771a207a54c5b4f4b66037d27385");
  EXPECT_EQ(Model::load(test::inference_golden("tiny_llama3"), {})->model_sha256(),
            "7cbbd9712fa58d3f33f2bcfd264954aa267e02af04a780ce65d4e76f75eec157");
}

// Rows of x, its columns, rows of the weights: few rows and many, odd ones, and weights of several parts.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
using Parameters = std::tuple<at::ScalarType, Shape>;

// Both the product that suits the processor and that which suits others.
class Linear : public ::testing::TestWithParam<Parameters> {};

// Half a unit of the last place of the result, and what float32 loses on the way.
double tolerance_of(at::ScalarType type) {
  if (type == at::kBFloat16) return 0x1p-8;
  return type == at::kHalf ? 0x1p-11 : 0;
}

TEST_P(Linear, IsTheProductRoundedOnce) {
  const auto& [type, shape] = GetParam();
  const auto& [n, inner, outer] = shape;
  at::manual_seed(7);
  const at::Tensor x = at::randn({n, inner}).to(type), weight = at::randn({outer, inner}).to(type);
  for (const at::Tensor& bias : {at::Tensor{}, at::randn({outer}).to(type)}) {
    const at::Tensor wide_x = x.to(at::kDouble), wide_weight = weight.to(at::kDouble);
    at::Tensor expected = wide_x.matmul(wide_weight.t());
    at::Tensor magnitudes = wide_x.abs().matmul(wide_weight.abs().t());
    if (bias.defined()) {
      expected += bias.to(at::kDouble);
      magnitudes += bias.to(at::kDouble).abs();
    }
    const at::Tensor allowed = tolerance_of(type) * 1.01 * expected.abs() + 1e-6 * magnitudes;
    const auto expect_product = [&](const at::Tensor& found) {
      const at::Tensor excess = (found.to(at::kDouble) - expected).abs() - allowed;
      EXPECT_LE(excess.max().item<double>(), 0);
    };
    expect_product(linear(x, weight, bias));
    at::Tensor own = at::empty({n, outer}, x.options());
    wide_linear(x, weight, bias, own);
    expect_product(own);
  }
}

std::string name_of(const ::testing::TestParamInfo<Parameters>& info) {
  const Shape& shape = std::get<1>(info.param);
  return std::string(at::toString(std::get<0>(info.param))) + "_" + std::to_string(std::get<0>(shape)) + "_" +
         std::to_string(std::get<1>(shape)) + "_" + std::to_string(std::get<2>(shape));
}

INSTANTIATE_TEST_SUITE_P(All, Linear,
                         ::testing::Combine(::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                                            ::testing::Values(Shape{1, 64, 100}, Shape{4, 33, 7},
                                                              Shape{5, 33, 7}, Shape{130, 96, 257},
                                                              Shape{6, 20000, 150})),
                         name_of);

}  // namespace

}  // namespace keyscope::capture
