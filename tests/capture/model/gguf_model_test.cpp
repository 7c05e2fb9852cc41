// What a GGUF file says of its model, as config.json and as Hugging Face's tensors. Goldens and how they were
// made stand in goldens/; their models lie in Hugging Face layout in ../inference/goldens/.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/config.hpp"
#include "capture/model/gguf_architecture.hpp"
#include "capture/model/gguf_config.hpp"
#include "capture/model/gguf_weights.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/model/stored_weights.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/gguf_models.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

using test::GgufBuilder;
using test::raw;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using Kind = RopeScaling::Kind;

std::string complaint(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

class GgufModelFile {
 public:
  explicit GgufModelFile(const GgufBuilder& builder, const std::string& name = "model.gguf")
      : path_(folder_.file(name)) {
    std::ofstream(path_, std::ios::binary) << builder.bytes();
  }
  const fs::path& path() const { return path_; }
  const fs::path& folder() const { return folder_.path(); }
  ModelConfig config() const { return read_config(path_); }
  nlohmann::json json() const { return parse_json(gguf_config(gguf::Container(path_))); }
  std::string refusal() const {
    return complaint([&] { config(); });
  }

 private:
  test::ScratchFolder folder_;
  fs::path path_;
};

// A language model with what it must say and an embedding of 8 rows of 16.
GgufBuilder described(const std::string& architecture, std::uint32_t n_layers = 2) {
  GgufBuilder file;
  const auto count = [&](const char* key, std::uint32_t value) {
    file.count(architecture + "." + key, value);
  };
  file.text("general.architecture", architecture);
  count("context_length", 4096);
  count("embedding_length", 16);
  count("feed_forward_length", 24);
  count("block_count", n_layers);
  count("attention.head_count", 4);
  count("attention.head_count_kv", 2);
  file.number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  return file.tensor("token_embd.weight", {8, 16}, std::vector<float>(128));
}

std::vector<float> values_of(const StoredWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.n_elements()));
  weight.unpack(0, weight.shape().front(), values.data());
  return values;
}

// --- against Hugging Face's files

// Of experts, which may be stored in one tensor there and by themselves here, ../inference holds the results.
bool is_of_experts(const std::string& tensor) {
  return tensor.find("experts.") != tensor.npos && tensor.find("shared_expert.") == tensor.npos;
}

TEST(GgufModel, WeightsAreThoseOfTheHuggingFaceFolder) {
  for (const std::string& name : test::gguf_models()) {
    const test::HuggingFaceTwin twin(name);
    const Checkpoint checkpoint(test::gguf_golden(name)), folder(twin.path());
    const StoredWeights stored(checkpoint), expected(folder);
    for (const auto& [tensor, weight] : stored.tensors())
      EXPECT_TRUE(is_of_experts(tensor) || expected.find(tensor) != nullptr) << name << " " << tensor;
    for (const auto& [tensor, weight] : expected.tensors()) {
      if (is_of_experts(tensor)) continue;
      const StoredWeight* found = stored.find(tensor);
      ASSERT_NE(found, nullptr) << name << " " << tensor;
      ASSERT_EQ(found->shape(), weight->shape()) << name << " " << tensor;
      found->check_form(tensor);
      const auto values = values_of(*found), exact = values_of(*weight);
      // 1 was added to norms of Gemma in float32, and is taken away again.
      const bool shifted = name.starts_with("tiny_gemma") && tensor.ends_with("norm.weight");
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], exact[i], shifted ? 1.2e-7 : 0) << name << " " << tensor << " " << i;
      // Any rows by themselves.
      const std::int64_t rows = found->shape().front(), entry = found->n_elements() / rows;
      std::vector<float> part(static_cast<std::size_t>((rows - rows / 2) * entry));
      found->unpack(rows / 2, rows - rows / 2, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + rows / 2 * entry)) << tensor;
    }
  }
}

void expect_same_shape(const ModelConfig& found, const ModelConfig& expected) {
  EXPECT_EQ(found.dtype, expected.dtype);
  EXPECT_EQ(found.n_layers, expected.n_layers);
  EXPECT_EQ(found.n_heads, expected.n_heads);
  EXPECT_EQ(found.n_kv_heads, expected.n_kv_heads);
  EXPECT_EQ(found.head_dim, expected.head_dim);
  EXPECT_EQ(found.hidden_size, expected.hidden_size);
  EXPECT_EQ(found.intermediate_size, expected.intermediate_size);
  EXPECT_EQ(found.vocab_size, expected.vocab_size);
  EXPECT_EQ(found.context_length, expected.context_length);
  EXPECT_EQ(found.layer_windows, expected.layer_windows);
  EXPECT_EQ(found.layer_experts, expected.layer_experts);
  EXPECT_EQ(found.experts.n, expected.experts.n);
  EXPECT_EQ(found.experts.per_token, expected.experts.per_token);
  EXPECT_EQ(found.experts.intermediate_size, expected.experts.intermediate_size);
  EXPECT_EQ(found.experts.shared_intermediate_size, expected.experts.shared_intermediate_size);
  EXPECT_EQ(found.experts.renormalised, expected.experts.renormalised);
  EXPECT_EQ(found.experts.clamp, expected.experts.clamp);
  EXPECT_EQ(found.tie_word_embeddings, expected.tie_word_embeddings);
  EXPECT_EQ(found.qkv_bias, expected.qkv_bias);
  EXPECT_EQ(found.output_bias, expected.output_bias);
  EXPECT_EQ(found.mlp_bias, expected.mlp_bias);
  EXPECT_EQ(found.eos_token_ids, expected.eos_token_ids);
}

void expect_same_numbers(const ModelConfig& found, const ModelConfig& expected) {
  EXPECT_EQ(found.layer_rotates, expected.layer_rotates);
  EXPECT_EQ(found.rotary_dim, expected.rotary_dim);
  EXPECT_EQ(found.interleaved_rotation, expected.interleaved_rotation);
  EXPECT_EQ(found.rms_norm_eps, expected.rms_norm_eps);
  EXPECT_EQ(found.rope_theta, expected.rope_theta);
  EXPECT_EQ(found.local_rope_theta, expected.local_rope_theta);
  EXPECT_EQ(found.rope_scaling.kind, expected.rope_scaling.kind);
  EXPECT_EQ(found.rope_scaling.factor, expected.rope_scaling.factor);
  EXPECT_EQ(found.rope_scaling.high_freq_factor, expected.rope_scaling.high_freq_factor);
  EXPECT_EQ(found.rope_scaling.original_context, expected.rope_scaling.original_context);
  EXPECT_EQ(found.rope_scaling.attention_factor, expected.rope_scaling.attention_factor);
  EXPECT_EQ(found.rope_scaling.truncate, expected.rope_scaling.truncate);
  EXPECT_EQ(found.attention_scale, expected.attention_scale);
  EXPECT_EQ(found.attention_softcap, expected.attention_softcap);
  EXPECT_EQ(found.logit_softcap, expected.logit_softcap);
  EXPECT_EQ(found.query_growth, expected.query_growth);
  EXPECT_EQ(found.query_growth_length, expected.query_growth_length);
  EXPECT_EQ(found.embedding_scale, expected.embedding_scale);
  EXPECT_EQ(found.residual_scale, expected.residual_scale);
  EXPECT_EQ(found.logit_divisor, expected.logit_divisor);
}

TEST(GgufModel, ConfigurationsAreThoseOfTheHuggingFaceFolder) {
  for (const std::string& name : test::gguf_models()) {
    SCOPED_TRACE(name);
    const test::HuggingFaceTwin twin(name);
    const ModelConfig found = read_config(test::gguf_golden(name)), expected = read_config(twin.path());
    EXPECT_EQ(found.model_type, expected.model_type);
    expect_same_shape(found, expected);
    expect_same_numbers(found, expected);
    EXPECT_EQ(parse_config(found.raw_json, "recording").raw_json, found.raw_json);
  }
}

TEST(GgufModel, ACheckpointKnowsItsFile) {
  const Checkpoint checkpoint(test::gguf_golden("tiny_qwen3"));
  ASSERT_EQ(checkpoint.files().size(), 1U);
  EXPECT_EQ(checkpoint.files()[0].path, test::gguf_golden("tiny_qwen3"));
  EXPECT_EQ(StoredWeights(checkpoint).float_dtype(), "float32");
  EXPECT_NE(checkpoint.find("blk.0.attn_q.weight"), nullptr) << "by its own names";
  EXPECT_EQ(gguf_quantisation(*checkpoint.gguf()), "GGUF F32");
}

// --- configurations by hand

TEST(GgufModel, SizesAndNumbers) {
  GgufBuilder file = described("llama");
  file.number("llama.rope.freq_base", 500000).count("general.file_type", 15).text("general.name", "Tiny");
  file.count("tokenizer.ggml.eos_token_id", 5).count("tokenizer.ggml.eot_token_id", 7);
  const GgufModelFile model(file);
  const ModelConfig config = model.config();
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.vocab_size, 8);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(5, 7));
  EXPECT_EQ(model.json()["gguf"]["file_type"], "Q4_K_M");
  EXPECT_EQ(model.json()["gguf"]["name"], "Tiny");
}

TEST(GgufModel, MistralsWindowMakesALlamaFileAMistral) {
  EXPECT_EQ(GgufModelFile(described("llama").count("llama.attention.sliding_window", 0)).config().model_type,
            "llama");
  const ModelConfig config =
      GgufModelFile(described("llama").count("llama.attention.sliding_window", 99)).config();
  EXPECT_EQ(config.model_type, "mistral");
  EXPECT_THAT(config.layer_windows, ElementsAre(99, 99));
}

TEST(GgufModel, ListsOfTheSameNumberAreOne) {
  GgufBuilder file;
  file.text("general.architecture", "qwen2").count("qwen2.context_length", 64);
  file.count("qwen2.embedding_length", 16)
      .count("qwen2.block_count", 2)
      .count("qwen2.attention.head_count", 4);
  file.number("qwen2.attention.layer_norm_rms_epsilon", 1e-6F);
  file.counts("qwen2.feed_forward_length", {24, 24})
      .tensor("token_embd.weight", {8, 16}, std::vector<float>(128));
  GgufBuilder differing = file;
  EXPECT_EQ(GgufModelFile(file.counts("qwen2.attention.head_count_kv", {2, 2})).config().n_kv_heads, 2);
  EXPECT_THAT(GgufModelFile(differing.counts("qwen2.attention.head_count_kv", {2, 4})).refusal(),
              AllOf(HasSubstr("head_count_kv"), HasSubstr("the same in every layer")));
}

TEST(GgufModel, GemmasLargestDividesByItsWidth) {
  const auto scalar = [](std::uint32_t n_layers) {
    return GgufModelFile(described("gemma3", n_layers).count("gemma3.attention.key_length", 8))
        .json()["query_pre_attn_scalar"];
  };
  EXPECT_EQ(scalar(26), 8);
  EXPECT_EQ(scalar(62), 4) << "27B: hidden size / heads";
  GgufBuilder gemma2 = described("gemma2").count("gemma2.attention.key_length", 8);
  gemma2.number("gemma2.attn_logit_softcapping", 50).number("gemma2.final_logit_softcapping", 30);
  gemma2.count("gemma2.attention.sliding_window", 6);
  const ModelConfig config = GgufModelFile(gemma2).config();
  EXPECT_EQ(config.attention_softcap, 50);
  EXPECT_EQ(config.logit_softcap, 30);
  EXPECT_THAT(config.layer_windows, ElementsAre(6, 0));
  EXPECT_EQ(config.attention_scale, 1 / std::sqrt(8.0));
}

TEST(GgufModel, PatternsOfWindowsAreLayerTypes) {
  const std::string types = raw<std::uint32_t>(7) + raw<std::uint64_t>(3) + std::string("\0\1\0", 3);
  GgufBuilder file = described("gemma3", 3).count("gemma3.attention.sliding_window", 5);
  file.count("gemma3.attention.key_length", 4).value("gemma3.attention.sliding_window_pattern", 9, types);
  EXPECT_THAT(GgufModelFile(file).config().layer_windows, ElementsAre(0, 5, 0));
}

TEST(GgufModel, RopeScaling) {
  GgufBuilder linear = described("qwen3").text("qwen3.rope.scaling.type", "linear");
  linear.number("qwen3.rope.scaling.factor", 4).count("qwen3.attention.key_length", 8);
  EXPECT_EQ(GgufModelFile(linear).config().rope_scaling.kind, Kind::kLinear);
  EXPECT_EQ(GgufModelFile(linear).config().rope_scaling.factor, 4);
  GgufBuilder yarn = described("qwen3").text("qwen3.rope.scaling.type", "yarn");
  yarn.number("qwen3.rope.scaling.factor", 4).count("qwen3.rope.scaling.original_context_length", 1024);
  yarn.number("qwen3.rope.scaling.yarn_beta_fast", 16);
  const RopeScaling scaling = GgufModelFile(yarn).config().rope_scaling;
  EXPECT_EQ(scaling.kind, Kind::kYarn);
  EXPECT_EQ(scaling.original_context, 1024);
  EXPECT_EQ(scaling.beta_fast, 16);
  EXPECT_THAT(GgufModelFile(yarn.number("qwen3.rope.scaling.yarn_ext_factor", 0.5F)).refusal(),
              HasSubstr("not supported"));
  EXPECT_THAT(GgufModelFile(described("qwen3").text("qwen3.rope.scaling.type", "ntk")).refusal(),
              AllOf(HasSubstr("is \"ntk\""), HasSubstr("linear, yarn or longrope")));
}

// As converters compute them, in float32.
std::vector<float> llama3_factors(double theta, int n_pairs, double factor, double high, double original) {
  std::vector<float> factors;
  for (int i = 0; i < n_pairs; ++i) {
    const auto frequency = static_cast<float>(1 / std::pow(theta, static_cast<double>(i) / n_pairs));
    const double length = 2 * std::numbers::pi / static_cast<double>(frequency);
    const double ramp = (original / length - 1) / (high - 1);
    factors.push_back(static_cast<float>(length < original / high ? 1
                                         : length > original      ? factor
                                                                  : 1 / ((1 - ramp) / factor + ramp)));
  }
  return factors;
}

RopeScaling scaling_of(const std::vector<float>& factors, float theta) {
  const auto n_pairs = static_cast<std::uint32_t>(factors.size());
  GgufBuilder file = described("llama").number("llama.rope.freq_base", theta);
  file.count("llama.attention.key_length", 2 * n_pairs).count("llama.rope.dimension_count", 2 * n_pairs);
  return GgufModelFile(file.tensor("rope_freqs.weight", {n_pairs}, factors)).config().rope_scaling;
}

TEST(GgufModel, RotaryFactorsSayWhatScalingTheyAreOf) {
  for (const double factor : {8.0, 32.0})
    for (const double original : {8192.0, 4096.0})
      for (const double high : {4.0, 6.0}) {
        const RopeScaling found = scaling_of(llama3_factors(500000, 64, factor, high, original), 500000);
        EXPECT_EQ(found.kind, Kind::kLlama3);
        EXPECT_EQ(found.factor, factor);
        EXPECT_EQ(found.low_freq_factor, 1);
        EXPECT_EQ(found.high_freq_factor, high);
        EXPECT_EQ(found.original_context, original);
      }
  EXPECT_EQ(scaling_of(std::vector<float>(8, 1), 10000).kind, Kind::kNone);
  const RopeScaling other = scaling_of({1, 2, 1, 3}, 10000);
  EXPECT_EQ(other.kind, Kind::kLongRope);
  EXPECT_THAT(other.short_factors, ElementsAre(1, 2, 1, 3));
  EXPECT_EQ(other.short_factors, other.long_factors);
  EXPECT_EQ(other.attention_factor, 1);
}

TEST(GgufModel, RefusesWhatIsNotKnownByName) {
  EXPECT_THAT(GgufModelFile(described("bloom")).refusal(),
              AllOf(HasSubstr("general.architecture"), HasSubstr("is \"bloom\""), HasSubstr("llama"),
                    HasSubstr("gemma3")));
  EXPECT_THAT(GgufModelFile(GgufBuilder()).refusal(), HasSubstr("has no metadata \"general.architecture\""));
  EXPECT_THAT(GgufModelFile(described("phi3")).refusal(), HasSubstr("phi3.attention.sliding_window"));
  GgufBuilder no_words;
  EXPECT_THAT(GgufModelFile(no_words.text("general.architecture", "llama")).refusal(),
              HasSubstr("has no matrix token_embd.weight"));
  EXPECT_THAT(GgufModelFile(described("llama").count("llama.attention.value_length", 8)).refusal(),
              HasSubstr("expected 4, as keys have"));
}

TEST(GgufModel, PeriodsOfWindowsAreLayerTypesAsWell) {
  GgufBuilder file = described("gemma2", 3).count("gemma2.attention.sliding_window", 5);
  file.count("gemma2.attention.sliding_window_pattern", 3);
  EXPECT_THAT(GgufModelFile(file).config().layer_windows, ElementsAre(5, 5, 0));
  EXPECT_TRUE(GgufModelFile(described("gemma3", 6)).config().layer_windows.empty()) << "it names no window";
}

TEST(GgufModel, YarnsAttentionFactorIsOneOfTwoNumbers) {
  GgufBuilder file = described("qwen3").text("qwen3.rope.scaling.type", "yarn");
  file.number("qwen3.rope.scaling.factor", 4).count("qwen3.rope.scaling.original_context_length", 1024);
  EXPECT_EQ(GgufModelFile(file).config().rope_scaling.attention_factor, 0.1 * std::log(4) + 1);
  file.number("qwen3.rope.scaling.yarn_log_multiplier", 1);
  EXPECT_EQ(GgufModelFile(file).config().rope_scaling.attention_factor, 1);
}

TEST(GgufModel, AFactorWithoutAKindIsLinear) {
  const auto scaling = [](const std::string& key, float factor) {
    return GgufModelFile(described("llama").number("llama." + key, factor)).config().rope_scaling;
  };
  EXPECT_EQ(scaling("rope.scaling.factor", 4).kind, Kind::kLinear);
  EXPECT_EQ(scaling("rope.scale_linear", 2).factor, 2);
  EXPECT_EQ(scaling("rope.scaling.factor", 1).kind, Kind::kNone);
}

TEST(GgufModel, BiasesAreWhereTheyAreStored) {
  EXPECT_FALSE(GgufModelFile(described("glm4")).config().qkv_bias) << "as the family has them by default";
  GgufBuilder file = described("glm4").tensor("blk.0.attn_q.bias", {16}, std::vector<float>(16));
  EXPECT_TRUE(GgufModelFile(file).config().qkv_bias);
}

TEST(GgufModel, ExpertsOfOldFilesAreAsWideAsTheirTensors) {
  GgufBuilder file = described("qwen2moe").count("qwen2moe.expert_count", 2);
  EXPECT_THAT(GgufModelFile(file).refusal(), HasSubstr("has no metadata \"qwen2moe.expert_used_count\""));
  file.count("qwen2moe.expert_used_count", 1);
  EXPECT_THAT(GgufModelFile(file).refusal(), HasSubstr("qwen2moe.expert_feed_forward_length"));
  file.tensor("blk.0.ffn_gate_exps.weight", {2, 6, 16}, std::vector<float>(192));
  file.tensor("blk.0.ffn_gate_shexp.weight", {5, 16}, std::vector<float>(80));
  const ModelConfig config = GgufModelFile(file).config();
  EXPECT_EQ(config.experts.intermediate_size, 6);
  EXPECT_EQ(config.experts.shared_intermediate_size, 5);
  EXPECT_FALSE(config.experts.renormalised);
}

TEST(GgufModel, RefusesWhatWouldMakeAnotherModel) {
  const auto refusal = [](const std::string& key, float value) {
    return GgufModelFile(described("qwen3").number("qwen3." + key, value)).refusal();
  };
  EXPECT_THAT(refusal("embedding_scale", 12),
              AllOf(HasSubstr("\"qwen3.embedding_scale\" is 12, expected 1"), HasSubstr("not supported")));
  EXPECT_EQ(refusal("embedding_scale", 1), "");
  EXPECT_THAT(refusal("attn_logit_softcapping", 30), HasSubstr("is 30, expected 0"));
  EXPECT_THAT(refusal("expert_count", 8), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal("rope.freq_base_swa", 5000), HasSubstr("expected 10000, as rope.freq_base is"));
  EXPECT_THAT(refusal("rope.freq_base", std::nanf("")), HasSubstr("is nan, expected a finite number"));
  EXPECT_THAT(GgufModelFile(described("qwen3").count("qwen3.expert_count", 8)).refusal(),
              HasSubstr("qwen3 with experts is not supported"));
  EXPECT_THAT(GgufModelFile(described("qwen3").flag("qwen3.attention.causal", false)).refusal(),
              HasSubstr("a token sees what came before it"));
  EXPECT_THAT(GgufModelFile(described("glm4").counts("glm4.rope.dimension_sections", {8, 12, 12})).refusal(),
              HasSubstr("positions of several kinds"));
  EXPECT_THAT(GgufModelFile(described("qwen3", 1U << 30)).refusal(), HasSubstr("block_count"));
  // What the file says by itself and not of this model is named as config.json's.
  EXPECT_THAT(GgufModelFile(described("qwen3").count("qwen3.attention.key_length", 5)).refusal(),
              HasSubstr("model.gguf, read as a config.json: "));
}

// --- weights by hand

std::string names_refusal(const GgufBuilder& builder) {
  const GgufModelFile model(builder);
  const gguf::Container file(model.path());
  return complaint([&] { gguf_weights(file); });
}

TEST(GgufModel, RefusesTensorsThatTheArchitectureDoesNotHave) {
  EXPECT_THAT(
      names_refusal(described("llama").tensor("blk.0.ssm_a.weight", {1}, {1})),
      AllOf(HasSubstr("tensor \"blk.0.ssm_a.weight\""), HasSubstr("no place in the architecture llama")));
  EXPECT_THAT(names_refusal(described("llama").tensor("blk.x.attn_q.weight", {1}, {1})),
              HasSubstr("expected blk.LAYER.NAME"));
  EXPECT_THAT(names_refusal(described("llama").tensor("blk.", {1}, {1})), HasSubstr("no place"));
  EXPECT_THAT(names_refusal(described("llama").tensor("blk.0.weight", {1}, {1})),
              HasSubstr("blk.LAYER.NAME"));
  EXPECT_THAT(
      names_refusal(described("llama").tensor("blk.0.attn_q.weight", {6, 16}, std::vector<float>(96))),
      HasSubstr("expected pairs of them in each of 4 heads"));
  EXPECT_EQ(names_refusal(described("llama").tensor("rope_freqs.weight", {2}, {1, 1})), "");
}

TEST(GgufModel, FormatsThatAreNotSupportedAreRefusedByName) {
  const GgufModelFile model(
      described("llama").tensor("output.weight", {8, 256}, 23, std::string(8 * 136, 'x')));
  const Checkpoint checkpoint(model.path());
  const StoredWeights stored(checkpoint);
  EXPECT_THAT(complaint([&] { stored.find("lm_head.weight")->check_form("lm_head.weight"); }),
              AllOf(HasSubstr("tensor lm_head.weight is IQ4_XS"), HasSubstr("Q4_K")));
}

// Rows of two heads of six, packed as Q8_0: row r holds r everywhere.
TEST(GgufModel, PackedRowsGoBackWhereTheyCameFrom) {
  GgufBuilder file;
  file.text("general.architecture", "llama").count("llama.attention.head_count", 2);
  std::string bytes;
  for (int row = 0; row < 12; ++row)
    bytes += std::string("\x00\x3C", 2) + std::string(32, static_cast<char>(row));
  file.tensor("blk.0.attn_q.weight", {12, 32}, 8, bytes);
  const GgufModelFile model(file);
  const gguf::Container container(model.path());
  const auto weights = gguf_weights(container);
  const StoredWeight& queries = *weights.at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(queries.form(), "Q8_0");
  EXPECT_FALSE(queries.is_plain());
  std::vector<float> rows;
  for (int row = 0; row < 12; ++row) {
    std::vector<float> values(32);
    queries.unpack(row, 1, values.data());
    EXPECT_THAT(values, ::testing::Each(values.front()));
    rows.push_back(values.front());
  }
  EXPECT_THAT(rows, ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11))
      << "first halves of pairs, then second ones";
  ASSERT_EQ(queries.bytes(7, 2).size(), 1U);
  EXPECT_EQ(queries.bytes(7, 2).front().size(), 6 * 34U) << "all of their head";
  EXPECT_EQ(queries.bytes(0, 12).front().size(), bytes.size());
}

TEST(GgufModel, ExpertsAndFusedProjectionsAreTensorsByThemselves) {
  GgufBuilder file = described("qwen3moe").count("qwen3moe.expert_count", 2);
  GgufBuilder more = file;
  EXPECT_THAT(names_refusal(more.tensor("blk.1.ffn_up_exps.weight", {3, 1, 1}, {1, 2, 3})),
              HasSubstr("it is [3, 1, 1], expected 2 experts along the first dimension"));
  file.tensor("blk.1.ffn_down_exps.weight", {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  file.tensor("blk.1.attn_qkv.weight", {8, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  const GgufModelFile model(file);
  const gguf::Container container(model.path());
  const auto weights = gguf_weights(container);
  const StoredWeight& second = *weights.at("model.layers.1.mlp.experts.1.down_proj.weight");
  EXPECT_THAT(second.shape(), ElementsAre(3, 2));
  EXPECT_THAT(values_of(second), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_TRUE(second.is_plain());
  EXPECT_EQ(second.bytes(1, 1).front().size(), 8U);
  EXPECT_THAT(values_of(*weights.at("model.layers.1.self_attn.q_proj.weight")), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values_of(*weights.at("model.layers.1.self_attn.k_proj.weight")), ElementsAre(4, 5));
  EXPECT_THAT(values_of(*weights.at("model.layers.1.self_attn.v_proj.weight")), ElementsAre(6, 7));
}

// --- where they lie

TEST(GgufModel, AFolderOfOneFileAndACacheOfOneAreThatFile) {
  const GgufModelFile model(described("llama"), "tiny.Q8_0.gguf");
  EXPECT_EQ(find_model(model.folder().string()), model.path());
  EXPECT_EQ(find_model(model.path().string()), model.path());
  EXPECT_EQ(model_name(model.path()), "tiny.Q8_0");
  test::ScratchFolder hub;
  const fs::path snapshot = hub.path() / "models--ORG--NAME-GGUF" / "snapshots" / "abc";
  fs::create_directories(snapshot);
  fs::create_directories(hub.path() / "models--ORG--NAME-GGUF" / "refs");
  std::ofstream(hub.path() / "models--ORG--NAME-GGUF" / "refs" / "main") << "abc";
  fs::copy_file(model.path(), snapshot / "tiny.gguf");
  setenv("HF_HUB_CACHE", hub.path().c_str(), 1);
  const fs::path found = find_model("ORG/NAME-GGUF");
  EXPECT_EQ(found, snapshot / "tiny.gguf");
  EXPECT_EQ(cached_model(found)->commit, "abc");
  EXPECT_EQ(model_name(found), "ORG/NAME-GGUF/tiny.gguf");
  fs::copy_file(model.path(), snapshot / "other.gguf");
  EXPECT_THAT(complaint([] { find_model("ORG/NAME-GGUF"); }),
              HasSubstr("holds 2 models; name one of its files: other.gguf, tiny.gguf"));
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace keyscope::capture
