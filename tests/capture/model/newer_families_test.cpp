// What Transformers' configuration classes write for every family, as they are and with every newer field
// spoilt.

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/model/config.hpp"
#include "capture/model/family.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

Json family_configs() { return parse_ordered_json(read_file(test::family_configs())); }

class WrittenFolder : public test::ConfigFolder {
 public:
  explicit WrittenFolder(const std::string& name) { config() = family_configs().at(name); }
};

TEST(NewerFamilies, EveryConfigurationIsTakenOrRefusedWithAReason) {
  int n_taken = 0;
  const Json configs = family_configs();
  for (const auto& [name, config] : configs.items()) {
    const std::string model_type = config.at("model_type");
    WrittenFolder folder(name);
    if (find_family(model_type) == nullptr) {
      EXPECT_NE(why_refused(model_type), "") << name;
      EXPECT_THAT(folder.complaint(),
                  AllOf(HasSubstr('"' + model_type + '"'), HasSubstr(std::string(why_refused(model_type)))));
    } else if (name == "granite-4.0-h-small") {
      EXPECT_THAT(folder.complaint(), HasSubstr("layers without keys are not supported"));
    } else {
      EXPECT_EQ(folder.complaint(), "") << name;
      ++n_taken;
    }
  }
  EXPECT_EQ(n_taken, 29);
}

TEST(NewerFamilies, NoFamilyIsBothTakenAndRefused) {
  for (const Family& family : known_families()) EXPECT_EQ(why_refused(family.model_type), "");
}

TEST(NewerFamilies, GptOss) {
  const ModelConfig config = WrittenFolder("gpt-oss-20b").read();
  EXPECT_TRUE(config.attention_sinks && config.qkv_bias && config.output_bias);
  EXPECT_EQ(config.window(0), 128);
  EXPECT_EQ(config.window(1), 0);
  EXPECT_EQ(config.experts.n, 32);
  EXPECT_EQ(config.experts.per_token, 4);
  EXPECT_EQ(config.experts.clamp, 7);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kYarn);
  EXPECT_FALSE(config.rope_scaling.truncate);
}

TEST(NewerFamilies, Qwen3Moe) {
  const ModelConfig config = WrittenFolder("qwen3-30b-a3b").read();
  EXPECT_EQ(config.experts.n, 128);
  EXPECT_EQ(config.experts.per_token, 8);
  EXPECT_EQ(config.experts.intermediate_size, 768);
  EXPECT_TRUE(config.experts.renormalised);
  EXPECT_THAT(config.layer_experts, AllOf(SizeIs(48), Each(true)));
}

TEST(NewerFamilies, Qwen3NextAttendsInEveryFourthLayer) {
  const ModelConfig config = WrittenFolder("Qwen3Next").read();
  EXPECT_TRUE(config.attention_gate);
  EXPECT_FALSE(config.attends(0));
  EXPECT_TRUE(config.attends(3));
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.recurrent.n_channels(), 2 * 16 * 128 + 32 * 128);
}

TEST(NewerFamilies, DeepseeksLatentIsTheOneKvHead) {
  const ModelConfig config = WrittenFolder("deepseek-v2-lite").read();
  EXPECT_EQ(config.n_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 512 + 64);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.latent.query_rank, 0);
  // (0.1 · 0.707 · ln 40 + 1)² / √192, as in the published code
  EXPECT_NEAR(config.attention_scale, 0.1147213867929261, 1e-12);
  EXPECT_EQ(config.rope_scaling.attention_factor, 1);
  EXPECT_THAT(std::vector<bool>(config.layer_experts.begin(), config.layer_experts.begin() + 2),
              ElementsAre(false, true));
  EXPECT_EQ(config.experts.shared_intermediate_size, 2 * 1408);
  EXPECT_EQ(config.experts.n_groups, 1) << "greedy: from all";

  ModelConfig expanded = WrittenFolder("deepseek-v3").read();
  EXPECT_EQ(expanded.experts.n_groups, 8);
  EXPECT_EQ(expanded.experts.chosen_groups, 4);
  EXPECT_EQ(expanded.experts.router, ExpertsConfig::Router::kBiasedSigmoid);
  EXPECT_EQ(expanded.latent.query_rank, 1536);
  EXPECT_EQ(expanded.n_further_layers, 1);
  expand_keys(expanded);
  EXPECT_EQ(expanded.n_kv_heads, 128);
  EXPECT_EQ(expanded.head_dim, 192);
  ModelConfig llama = WrittenFolder("Llama").read();
  EXPECT_THROW(expand_keys(llama), UsageError);
}

TEST(NewerFamilies, Gemma4sLayersDiffer) {
  WrittenFolder folder("Gemma4Text");
  folder.config()["num_kv_shared_layers"] = 10;
  folder.config()["use_double_wide_mlp"] = true;
  folder.config()["layer_types"][29] = "sliding_attention";  // the last one sees all nevertheless
  const ModelConfig config = folder.read();
  EXPECT_EQ(config.heads(4), (HeadShape{4, 256}));
  EXPECT_EQ(config.heads(5), (HeadShape{4, 512}));
  EXPECT_EQ(config.window(29), 0);
  EXPECT_EQ(config.rotary_dim, 512);
  EXPECT_EQ(config.local_rotary_dim, 256);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kProportional);
  EXPECT_EQ(config.rope_scaling.rotated_share, 0.25);
  EXPECT_FALSE(config.borrows(19));
  EXPECT_EQ(config.lender(20), 19);
  EXPECT_EQ(config.lender(23), 17);
  EXPECT_EQ(config.last_reader(17), 29);
  EXPECT_EQ(config.mlp_size(19), 9216);
  EXPECT_EQ(config.mlp_size(20), 2 * 9216);
  EXPECT_EQ(config.layer_input.size, 256);
  EXPECT_EQ(config.attention_scale, 1);
  EXPECT_EQ(config.cached_elements(5), 2 * 4 * 512);
  EXPECT_EQ(config.cached_elements(23), 0);
}

// Older files have fields for it; values are keys then.
TEST(NewerFamilies, Gemma4sGlobalHeadsMayBeFields) {
  WrittenFolder folder("Gemma4Text");
  folder.config().erase("per_layer_config");
  EXPECT_EQ(folder.read().heads(5), (HeadShape{4, 512}));
  folder.config()["global_head_dim"] = 128;
  folder.config()["num_global_key_value_heads"] = 2;
  EXPECT_EQ(folder.read().heads(5), (HeadShape{4, 128})) << "unless values are keys";
  folder.config()["attention_k_eq_v"] = true;
  const ModelConfig config = folder.read();
  EXPECT_EQ(config.heads(5), (HeadShape{2, 128}));
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
}

// A field of a family's configuration, a value that it cannot have, and what is said of it.
struct Spoilt {
  std::string config, field;
  Json value;
  std::string complaint;
};

void PrintTo(const Spoilt& spoilt, std::ostream* out) {
  *out << spoilt.config << ": " << spoilt.field << " = " << json_text(spoilt.value);
}

class SpoiltField : public ::testing::TestWithParam<Spoilt> {};

TEST_P(SpoiltField, IsRefusedInOneSentence) {
  const Spoilt& spoilt = GetParam();
  WrittenFolder folder(spoilt.config);
  folder.config()[spoilt.field] = spoilt.value;
  const std::string complaint = folder.complaint();
  EXPECT_THAT(complaint,
              AllOf(HasSubstr("config.json: "), HasSubstr(spoilt.complaint), HasSubstr(", expected ")));
  EXPECT_EQ(complaint.find('\n'), std::string::npos);
}

std::vector<Spoilt> spoilt_fields() {
  const std::string deep = "deepseek-v3", lite = "deepseek-v2-lite", qwen = "qwen3-30b-a3b",
                    gpt = "gpt-oss-20b";
  return {
      // experts
      {qwen, "num_experts", 0, "num_experts is 0"},
      {qwen, "num_experts", -3, "num_experts is -3"},
      {qwen, "num_experts", 1e9, "num_experts is"},
      {qwen, "num_experts_per_tok", 129, "num_experts_per_tok is 129"},
      {qwen, "num_experts_per_tok", 0, "num_experts_per_tok is 0"},
      {qwen, "moe_intermediate_size", 0, "moe_intermediate_size is 0"},
      {qwen, "moe_intermediate_size", "768", "moe_intermediate_size is \"768\""},
      {qwen, "decoder_sparse_step", 0, "decoder_sparse_step is 0"},
      {qwen, "mlp_only_layers", Json::array({48}), "mlp_only_layers is [48]"},
      {qwen, "mlp_only_layers", Json::array({-1}), "mlp_only_layers is [-1]"},
      {qwen, "mlp_only_layers", Json::array({"0"}), "mlp_only_layers is"},
      {qwen, "mlp_only_layers", 3, "mlp_only_layers is 3"},
      {qwen, "intermediate_size", nullptr, "intermediate_size is nothing"},
      {qwen, "norm_topk_prob", 1, "norm_topk_prob is 1"},
      {"Qwen2Moe", "shared_expert_intermediate_size", 0, "shared_expert_intermediate_size is 0"},
      {"GraniteMoeHybrid", "shared_intermediate_size", -1, "shared_intermediate_size is -1"},
      {gpt, "num_local_experts", 0, "num_local_experts is 0"},
      {gpt, "intermediate_size", nullptr, "intermediate_size is nothing"},
      {gpt, "swiglu_limit", 0, "swiglu_limit is 0"},
      {gpt, "swiglu_limit", -7.5, "swiglu_limit is -7.5"},
      {gpt, "swiglu_alpha", 2, "swiglu_alpha is 2"},
      {deep, "n_routed_experts", 255, "n_group is 8"},
      {deep, "n_group", 0, "n_group is 0"},
      {deep, "n_group", 256, "n_group is 256"},
      {deep, "topk_group", 9, "topk_group is 9"},
      {deep, "num_experts_per_tok", 200, "num_experts_per_tok is 200"},
      {deep, "routed_scaling_factor", 0, "routed_scaling_factor is 0"},
      {deep, "scoring_func", "softmax", "scoring_func is \"softmax\""},
      {deep, "moe_layer_freq", 2, "moe_layer_freq is 2"},
      {deep, "first_k_dense_replace", -1, "first_k_dense_replace is -1"},
      {deep, "n_shared_experts", -1, "n_shared_experts is -1"},
      {deep, "num_nextn_predict_layers", -1, "num_nextn_predict_layers is -1"},
      {lite, "topk_method", "noaux_tc", "topk_method is \"noaux_tc\""},
      {lite, "norm_topk_prob", true, "norm_topk_prob is true"},
      {lite, "num_experts_per_tok", nullptr, "num_experts_per_tok is nothing"},
      // latents
      {deep, "kv_lora_rank", 0, "kv_lora_rank is 0"},
      {deep, "q_lora_rank", -1, "q_lora_rank is -1"},
      {deep, "qk_rope_head_dim", 63, "qk_rope_head_dim is 63"},
      {deep, "qk_nope_head_dim", 0, "qk_nope_head_dim is 0"},
      {deep, "v_head_dim", 193, "v_head_dim is 193"},
      {deep, "rope_interleave", 1, "rope_interleave is 1"},
      // which layers do what
      {"Qwen3Next", "layer_types", Json::array({"full_attention"}), "layer_types is"},
      {"Qwen3Next", "layer_types", Json::array(), "layer_types is []"},
      {"Qwen3Next", "layer_types", std::vector<std::string>(48, "linear_attention"), "layer_types is"},
      {"Qwen3Next", "layer_types", std::vector<std::string>(48, "mamba"), "layer_types is \"mamba\""},
      {"Qwen3Next", "layer_types", std::vector<std::string>(48, "chunked_attention"), "layer_types is"},
      {"Qwen3Next", "linear_num_value_heads", 33, "linear_num_value_heads is 33"},
      {"Qwen3Next", "linear_num_key_heads", 0, "linear_num_key_heads is 0"},
      {"Qwen3Next", "linear_conv_kernel_dim", 0, "linear_conv_kernel_dim is 0"},
      {"Qwen3Next", "linear_value_head_dim", -128, "linear_value_head_dim is -128"},
      {"Olmo3", "layer_types", Json::array({"sliding_attention"}), "layer_types is"},
      {"SmolLM3", "no_rope_layers", Json::array({1, 0}), "no_rope_layers is"},
      {"SmolLM3", "no_rope_layers", std::vector<int>(36, 2), "no_rope_layers is"},
      {"GraniteMoeHybrid", "position_embedding_type", "alibi", "position_embedding_type is \"alibi\""},
      // rotation
      {"Glm", "partial_rotary_factor", 0, "partial_rotary_factor is 0"},
      {"Glm", "partial_rotary_factor", 1.5, "partial_rotary_factor is 1.5"},
      {"Llama", "partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5"},
      {"Phi3",
       "rope_parameters",
       {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.01}},
       "partial_rotary_factor is 0.01"},
      {"Ministral3",
       "rope_parameters",
       {{"rope_type", "yarn"},
        {"factor", 16.0},
        {"original_max_position_embeddings", 16384},
        {"llama_4_scaling_beta", -0.1}},
       "llama_4_scaling_beta is -0.1"},
      // layers that differ
      {"Gemma4Text", "num_kv_shared_layers", 30, "num_kv_shared_layers is 30"},
      {"Gemma4Text", "num_kv_shared_layers", 26, "num_kv_shared_layers is 26"},
      {"Gemma4Text", "num_kv_shared_layers", -1, "num_kv_shared_layers is -1"},
      {"Gemma4Text", "num_kv_shared_layers", 4096, "num_kv_shared_layers is 4096"},
      {"Gemma4Text", "per_layer_config", {{"30", {{"head_dim", 512}}}}, "per_layer_config: 30 is"},
      {"Gemma4Text", "per_layer_config", {{"-1", {{"head_dim", 512}}}}, "per_layer_config: -1 is"},
      {"Gemma4Text", "per_layer_config", {{"5", {{"head_dim", 511}}}}, "head_dim is 511"},
      {"Gemma4Text", "per_layer_config", {{"5", {{"head_dim", 0}}}}, "head_dim is 0"},
      {"Gemma4Text", "per_layer_config", {{"5", {{"head_dim", 128}}}}, "per_layer_config is head_dim"},
      {"Gemma4Text", "per_layer_config", {{"5", {{"num_key_value_heads", 3}}}}, "num_key_value_heads is 3"},
      {"Gemma4Text", "per_layer_config", {{"5", {{"hidden_size", 3}}}}, "hidden_size is 3"},
      {"Gemma4Text", "per_layer_config", 5, "per_layer_config is 5"},
      {"Gemma4Text", "hidden_size_per_layer_input", -1, "hidden_size_per_layer_input is -1"},
      {"Gemma4Text", "vocab_size_per_layer_input", 10, "vocab_size_per_layer_input is 10"},
      {"Gemma4Text", "enable_moe_block", true, "num_experts is nothing"},
      {"Gemma4Text", "use_bidirectional_attention", "all", "use_bidirectional_attention is \"all\""},
      {"Gemma4Text",
       "rope_parameters",
       {{"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 1.5}}}},
       "partial_rotary_factor is 1.5"},
      // multipliers
      {"Granite", "embedding_multiplier", 0, "embedding_multiplier is 0"},
      {"Granite", "residual_multiplier", -1, "residual_multiplier is -1"},
      {"Granite", "attention_multiplier", "1", "attention_multiplier is \"1\""},
      {"Granite", "logits_scaling", 0.0, "logits_scaling is 0"},
  };
}

INSTANTIATE_TEST_SUITE_P(NewerFamilies, SpoiltField, ::testing::ValuesIn(spoilt_fields()));

}  // namespace
}  // namespace keyscope::capture
