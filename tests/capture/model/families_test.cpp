// What a config.json of each family says: defaults as in the family's class in Transformers, windows, RoPE,
// and what is refused.

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "capture/model/config.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;
using Kind = RopeScaling::Kind;

// A family's configuration with what it must say, and nothing else.
class FamilyFolder : public test::ConfigFolder {
 public:
  FamilyFolder(const std::string& model_type, const std::string& architecture, int n_layers = 4) {
    config() = {{"architectures", {architecture}},
                {"model_type", model_type},
                {"hidden_size", 32},
                {"intermediate_size", 40},
                {"num_hidden_layers", n_layers},
                {"num_attention_heads", 4},
                {"num_key_value_heads", 2},
                {"vocab_size", 50}};
  }
};

FamilyFolder llama() { return {"llama", "LlamaForCausalLM"}; }
FamilyFolder mistral() { return {"mistral", "MistralForCausalLM"}; }
FamilyFolder qwen2() { return {"qwen2", "Qwen2ForCausalLM"}; }
FamilyFolder qwen3() { return {"qwen3", "Qwen3ForCausalLM"}; }
FamilyFolder gemma2() { return {"gemma2", "Gemma2ForCausalLM"}; }
FamilyFolder gemma3() { return {"gemma3_text", "Gemma3ForCausalLM", 7}; }
FamilyFolder phi3() { return {"phi3", "Phi3ForCausalLM"}; }

TEST(Families, MistralsWindowIsThatOfAllLayers) {
  FamilyFolder folder = mistral();
  EXPECT_THAT(folder.read().layer_windows, ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_EQ(folder.read().context_length, 131072) << "a prompt may be longer than the window";
  folder.config()["sliding_window"] = 10;
  EXPECT_EQ(folder.read().window(3), 10);
  folder.config()["sliding_window"] = nullptr;
  EXPECT_THAT(folder.read().layer_windows, IsEmpty());
  folder.config()["sliding_window"] = 0;
  EXPECT_THAT(folder.complaint(), HasSubstr("sliding_window is 0"));
}

TEST(Families, QwensWindowIsThatOfTheUpperLayersIfItsFlagIsSet) {
  for (const auto& make : {qwen2, qwen3}) {
    FamilyFolder folder = make();
    folder.config()["sliding_window"] = 256;
    folder.config()["max_window_layers"] = 3;
    EXPECT_THAT(folder.read().layer_windows, IsEmpty());
    EXPECT_EQ(folder.read().context_length, 32768);
    folder.config()["use_sliding_window"] = true;
    EXPECT_THAT(folder.read().layer_windows, ElementsAre(0, 0, 0, 256));
    folder.config()["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                                      "sliding_attention"};
    EXPECT_THAT(folder.read().layer_windows, ElementsAre(256, 0, 0, 256));
    folder.config()["use_sliding_window"] = false;
    EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("sliding_window"), HasSubstr("switched off")));
    folder.config().erase("layer_types");
    folder.config().erase("max_window_layers");
    folder.config()["use_sliding_window"] = true;
    EXPECT_THAT(folder.read().layer_windows, IsEmpty()) << "windows begin at layer 28";
  }
}

TEST(Families, QwensBiasesAndNorms) {
  EXPECT_TRUE(qwen2().read().qkv_bias);
  EXPECT_FALSE(qwen2().read().output_bias);
  EXPECT_EQ(qwen3().read().head_dim, 128);
  EXPECT_FALSE(qwen3().read().unit_offset_norms);
}

TEST(Families, MissingKvHeadsAreTheDefaultAndNullOnesAreAsManyAsHeads) {
  FamilyFolder folder = mistral();
  folder.config()["num_key_value_heads"] = nullptr;
  EXPECT_EQ(folder.read().n_kv_heads, 4);
  folder.config()["num_attention_heads"] = 16;
  folder.config().erase("num_key_value_heads");
  EXPECT_EQ(folder.read().n_kv_heads, 8);
}

TEST(Families, Gemma2) {
  FamilyFolder folder = gemma2();
  const ModelConfig config = folder.read();
  EXPECT_THAT(config.layer_windows, ElementsAre(4096, 0, 4096, 0));
  EXPECT_EQ(config.attention_softcap, 50);
  EXPECT_EQ(config.logit_softcap, 30);
  EXPECT_EQ(config.attention_scale, 1.0 / 16);
  EXPECT_EQ(config.embedding_scale, std::sqrt(32.0));
  EXPECT_EQ(config.activation, HiddenActivation::kGeluTanh);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_EQ(config.local_rope_theta, 0);
  EXPECT_TRUE(config.unit_offset_norms);
  EXPECT_TRUE(config.tie_word_embeddings);
  folder.config().update({{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 7}});
  folder.config().update({{"query_pre_attn_scalar", 144}, {"hidden_act", "gelu"}});
  EXPECT_EQ(folder.read().attention_softcap, 0);
  EXPECT_EQ(folder.read().logit_softcap, 7);
  EXPECT_EQ(folder.read().attention_scale, 1.0 / 12);
  folder.config()["hidden_activation"] = "gelu";
  EXPECT_THAT(folder.complaint(), HasSubstr("hidden_activation is \"gelu\""));
  folder.config().erase("hidden_activation");
  folder.config()["sliding_window"] = nullptr;
  EXPECT_THAT(folder.complaint(), HasSubstr("sliding_window is nothing"));
}

TEST(Families, Gemma3) {
  FamilyFolder folder = gemma3();
  const ModelConfig config = folder.read();
  EXPECT_THAT(config.layer_windows, ElementsAre(4096, 4096, 4096, 4096, 4096, 0, 4096));
  EXPECT_EQ(config.attention_softcap, 0);
  EXPECT_EQ(config.logit_softcap, 0);
  folder.config().update({{"attn_logit_softcapping", 50}, {"final_logit_softcapping", 30}});
  EXPECT_EQ(folder.read().attention_softcap, 0) << "Transformers reads it, and goes on without";
  EXPECT_EQ(folder.read().logit_softcap, 30);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.local_rope_theta, 10000);
  EXPECT_TRUE(config.rotates_locally(0));
  EXPECT_FALSE(config.rotates_locally(5));
  EXPECT_TRUE(config.unit_offset_norms);
  folder.config().update(
      {{"sliding_window_pattern", 3}, {"sliding_window", 9}, {"rope_local_base_freq", 500}});
  folder.config()["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  EXPECT_THAT(folder.read().layer_windows, ElementsAre(9, 9, 0, 9, 9, 0, 9));
  EXPECT_EQ(folder.read().local_rope_theta, 500);
  EXPECT_EQ(folder.read().rope_scaling.kind, Kind::kLinear);
  folder.config()["sliding_window_pattern"] = 0;
  EXPECT_THAT(folder.complaint(), HasSubstr("sliding_window_pattern is 0"));
}

TEST(Families, Gemma3sNewerSpellingHasOneRopePerKindOfLayer) {
  FamilyFolder folder = gemma3();
  Json& rope = folder.config()["rope_parameters"];
  rope["full_attention"] = {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 700}};
  rope["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 70}};
  EXPECT_EQ(folder.read().rope_theta, 700);
  EXPECT_EQ(folder.read().local_rope_theta, 70);
  EXPECT_EQ(folder.read().rope_scaling.factor, 8);
  rope["sliding_attention"] = {{"rope_type", "linear"}, {"factor", 8}};
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("sliding_attention"), HasSubstr("linear")));
  rope.erase("sliding_attention");
  EXPECT_EQ(folder.read().local_rope_theta, 10000);
  rope["full_attention"]["rope_type"] = "yarn";
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("yarn"), HasSubstr("one of default, linear")));
  rope = {{"rope_type", "linear"}, {"factor", 8}};
  EXPECT_THAT(folder.complaint(), HasSubstr("full_attention and sliding_attention"));
}

// What Transformers takes from a family's own parameters, though another theta stands outside of them.
TEST(Families, AThetaThatDoesNotCount) {
  FamilyFolder ministral("ministral3", "Ministral3ForCausalLM");
  ministral.config()["rope_theta"] = 300;
  EXPECT_EQ(ministral.read().rope_theta, 1e6);
  EXPECT_EQ(ministral.read().rope_scaling.kind, Kind::kYarn);
  ministral.config()["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 3}};
  EXPECT_EQ(ministral.read().rope_theta, 300) << "parameters of its own";
  FamilyFolder gemma("gemma4_text", "Gemma4ForCausalLM", 6);
  gemma.config()["rope_theta"] = 300;
  gemma.config()["rope_local_base_freq"] = 30;
  EXPECT_EQ(gemma.read().rope_theta, 1e6);
  EXPECT_EQ(gemma.read().local_rope_theta, 10000);
  Json& rope = gemma.config()["rope_parameters"];
  rope["full_attention"] = {{"rope_type", "proportional"}, {"rope_theta", 700}};
  rope["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 70}};
  EXPECT_EQ(gemma.read().rope_theta, 700);
  EXPECT_EQ(gemma.read().local_rope_theta, 70);
}

TEST(Families, ARotationOfEachKindOfLayerWhereAllRotateAlike) {
  FamilyFolder folder = qwen3();
  folder.config()["rope_parameters"]["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 70}};
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("rope_parameters: sliding_attention is"),
                                        HasSubstr("expected one rotation, that of all layers")));
}

TEST(Families, Gemma3WithImagesIsRefusedByName) {
  FamilyFolder folder("gemma3", "Gemma3ForConditionalGeneration");
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("\"gemma3\""), HasSubstr("gemma3_text")));
}

TEST(Families, Phi3) {
  FamilyFolder folder = phi3();
  const ModelConfig config = folder.read();
  EXPECT_THAT(config.layer_windows, IsEmpty());
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.context_length, 4096);
  folder.config()["sliding_window"] = 2047;
  EXPECT_THAT(folder.read().layer_windows, ElementsAre(2047, 2047, 2047, 2047));
  folder.config()["layer_types"] = {"full_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_THAT(folder.complaint(), HasSubstr("sliding_attention in every place"));
  folder.config().erase("layer_types");
  folder.config()["attention_bias"] = true;
  EXPECT_THAT(folder.complaint(), HasSubstr("attention_bias is true"));
  folder.config().erase("attention_bias");
  folder.config()["partial_rotary_factor"] = 0.75;
  EXPECT_EQ(folder.read().rotary_dim, 6);
  folder.config()["partial_rotary_factor"] = 0.4;
  EXPECT_THAT(folder.complaint(), HasSubstr("makes an even number of the 8 coordinates"));
}

TEST(Families, Phi3sLongRopeUnderEveryNameThatItHad) {
  FamilyFolder folder = phi3();
  folder.config()["max_position_embeddings"] = 131072;
  for (const char* name : {"longrope", "su", "yarn"}) {
    folder.config()["rope_scaling"] = {
        {"type", name}, {"short_factor", {1, 1, 1, 1}}, {"long_factor", {1, 2, 3, 4.5}}};
    const RopeScaling scaling = folder.read().rope_scaling;
    EXPECT_EQ(scaling.kind, Kind::kLongRope);
    EXPECT_EQ(scaling.original_context, 4096);
    EXPECT_THAT(scaling.long_factors, ElementsAre(1, 2, 3, 4.5));
    EXPECT_NEAR(scaling.attention_factor, 1.19023807, 1e-8);
  }
  folder.config()["original_max_position_embeddings"] = 8192;
  EXPECT_EQ(folder.read().rope_scaling.original_context, 8192);
  EXPECT_EQ(folder.read().context_length, 131072);
  folder.config()["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("linear"), HasSubstr("one of default, longrope")));
}

TEST(Families, DynamicRopeStretchesTheContext) {
  FamilyFolder folder = llama();
  folder.config()["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.5}};
  const ModelConfig config = folder.read();
  EXPECT_EQ(config.rope_scaling.kind, Kind::kDynamic);
  EXPECT_EQ(config.rope_scaling.original_context, 2048);
  EXPECT_EQ(config.context_length, 5120);
  folder.config()["head_dim"] = 2;
  EXPECT_THAT(folder.complaint(), HasSubstr("head_dim is 2"));
}

TEST(Families, WhatTheOriginalContextWasMayStandOutside) {
  FamilyFolder folder = llama();
  folder.config()["original_max_position_embeddings"] = 100;
  folder.config()["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 300}};
  EXPECT_EQ(folder.read().rope_scaling.original_context, 100) << "as in Transformers";
  folder.config().erase("original_max_position_embeddings");
  EXPECT_EQ(folder.read().rope_scaling.original_context, 300);
}

}  // namespace
}  // namespace keyscope::capture
