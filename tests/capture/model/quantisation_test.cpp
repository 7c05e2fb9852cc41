#include "capture/model/quantisation.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {

namespace {

using ::testing::HasSubstr;

std::string description_of(const std::string& config) {
  return read_quantisation({{"quantization_config", parse_json(config)}}, "config.json").description();
}

std::string refusal(const std::string& config) {
  try {
    description_of(config);
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

TEST(Quantisation, IsNoneWhereNothingIsSaid) {
  EXPECT_EQ(read_quantisation({{"model_type", "llama"}}, "config.json"), Quantisation());
  EXPECT_EQ(read_quantisation({{"quantization_config", nullptr}}, "config.json"), Quantisation());
  EXPECT_EQ(Quantisation().description(), "");
}

TEST(Quantisation, SaysWhatItIs) {
  EXPECT_EQ(description_of(R"({"quant_method":"gptq","bits":4,"group_size":128})"),
            "gptq, 4 bits, groups of 128");
  EXPECT_EQ(description_of(R"({"quant_method":"gptq","bits":3,"group_size":-1,"desc_act":true})"),
            "gptq, 3 bits, one group, desc_act");
  EXPECT_EQ(description_of(R"({"quant_method":"awq","bits":4,"group_size":64,"version":"GEMM"})"),
            "awq, 4 bits, groups of 64");
  EXPECT_EQ(description_of(R"({"quant_method":"mxfp4"})"), "mxfp4, 4 bits, groups of 32");
  EXPECT_EQ(description_of(R"({"quant_method":"fp8"})"), "fp8, 8 bits");
  EXPECT_EQ(description_of(R"({"quant_method":"fp8","weight_block_size":[128,64]})"),
            "fp8, 8 bits, blocks of 128 x 64");
  EXPECT_EQ(description_of(R"({"quant_method":"fp8","weight_block_size":null})"),
            "fp8, 8 bits, a scale per row or tensor");
  EXPECT_EQ(description_of(R"({"load_in_4bit":true,"bnb_4bit_quant_type":"nf4"})"), "bitsandbytes, nf4");
  EXPECT_EQ(description_of(R"({"quant_method":"bitsandbytes","load_in_8bit":true})"), "bitsandbytes, int8");
}

TEST(Quantisation, ReadsGroupsOfCompressedTensors) {
  const Quantisation read = read_quantisation({{"quantization_config", parse_json(R"({
    "quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["lm_head"],
    "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "sparsity_config": {}, "transform_config": {},
    "config_groups": {
      "group_0": {"targets": ["Linear"], "format": "pack-quantized", "input_activations": null,
                  "weights": {"num_bits": 4, "type": "int", "group_size": 64, "actorder": "weight"}},
      "group_1": {"targets": ["re:.*down_proj"], "format": "float-quantized",
                  "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 64]}},
      "group_2": {"targets": ["re:.*attn"], "weights": null}}})")}},
                                              "config.json");
  EXPECT_EQ(read.description(),
            "compressed-tensors, pack-quantized, 4 bits, groups of 64; float-quantized, 8 bits, blocks of "
            "128 x 64");
  EXPECT_EQ(read.plain_modules, std::vector<std::string>{"lm_head"});
  ASSERT_EQ(read.schemes.size(), 2U);
  EXPECT_EQ(read.schemes[0].strategy, PackingScheme::Strategy::kGroup);
  EXPECT_EQ(read.schemes[1].block_columns, 64);
}

TEST(Quantisation, OlderFilesSayItElsewhere) {
  const nlohmann::json groups =
      parse_json(R"({"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"strategy":"channel"}}})");
  const nlohmann::json inner{{"format", "int-quantized"}, {"config_groups", groups}};
  const char* said = "compressed-tensors, int-quantized, 8 bits, a scale per row";
  EXPECT_EQ(read_quantisation({{"compression_config", inner}}, "c").description(), said);
  EXPECT_EQ(read_quantisation({{"compression_config", {{"quantization_config", inner}}}}, "c").description(),
            said);

  const test::ConfigFolder gptq, awq;
  gptq.write("quantize_config.json", R"({"bits":4,"group_size":128,"desc_act":false,"damp_percent":0.01})");
  EXPECT_EQ(gptq.read().quantisation.description(), "gptq, 4 bits, groups of 128");
  awq.write("quant_config.json", R"({"zero_point":true,"q_group_size":128,"w_bit":4,"version":"GEMM"})");
  EXPECT_EQ(awq.read().quantisation.description(), "awq, 4 bits, groups of 128");
  EXPECT_THAT(awq.read().quantisation.where, HasSubstr("quant_config.json"));
}

// As models are published with them.
TEST(Quantisation, ReadsPublishedConfigurations) {
  const std::vector<std::pair<std::string, std::string>> published{
      // openai/gpt-oss-20b
      {R"({"modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router",
           "model.embed_tokens","lm_head"],"quant_method":"mxfp4"})",
       "mxfp4, 4 bits, groups of 32"},
      // Qwen/Qwen3-8B-FP8
      {R"({"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","weight_block_size":[128,128]})",
       "fp8, 8 bits, blocks of 128 x 128"},
      // neuralmagic/Meta-Llama-3-8B-Instruct-FP8
      {R"({"activation_scheme":"static","ignored_layers":["lm_head"],"quant_method":"fp8"})", "fp8, 8 bits"},
      // mistralai/Ministral-3-3B-Instruct
      {R"({"activation_scheme":"static","dequantize":false,"modules_to_not_convert":
           ["model.vision_tower","model.multi_modal_projector","lm_head"],"quant_method":"fp8",
           "weight_block_size":null})",
       "fp8, 8 bits, a scale per row or tensor"},
      // TheBloke/Llama-2-7B-Chat-GPTQ
      {R"({"bits":4,"group_size":128,"damp_percent":0.01,"desc_act":false,"sym":true,"true_sequential":true,
           "model_name_or_path":null,"model_file_base_name":"model","quant_method":"gptq"})",
       "gptq, 4 bits, groups of 128"},
      // Qwen/Qwen2.5-0.5B-Instruct-GPTQ-Int8
      {R"({"batch_size":1,"bits":8,"block_name_to_quantize":null,"cache_block_outputs":true,"damp_percent":0.01,
           "dataset":null,"desc_act":false,"exllama_config":{"version":1},"group_size":128,"max_input_length":null,
           "model_seqlen":null,"module_name_preceding_first_block":null,"modules_in_block_to_quantize":null,
           "pad_token_id":null,"quant_method":"gptq","sym":true,"tokenizer":null,"true_sequential":true,
           "use_cuda_fp16":false,"use_exllama":true})",
       "gptq, 8 bits, groups of 128"},
      // Qwen/Qwen2.5-7B-Instruct-AWQ
      {R"({"bits":4,"group_size":128,"modules_to_not_convert":null,"quant_method":"awq","version":"gemm",
           "zero_point":true})",
       "awq, 4 bits, groups of 128"},
      // RedHatAI/Qwen3-8B-quantized.w4a16
      {R"({"config_groups":{"group_0":{"input_activations":null,"output_activations":null,"targets":["Linear"],
           "weights":{"actorder":"weight","block_structure":null,"dynamic":false,"group_size":128,"num_bits":4,
           "observer":"mse","observer_kwargs":{},"strategy":"group","symmetric":true,"type":"int"}}},
           "format":"pack-quantized","global_compression_ratio":null,"ignore":["lm_head"],"kv_cache_scheme":null,
           "quant_method":"compressed-tensors","quantization_status":"compressed","sparsity_config":{},
           "transform_config":{},"version":"0.10.3.dev47"})",
       "compressed-tensors, pack-quantized, 4 bits, groups of 128"},
      // RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic
      {R"({"config_groups":{"group_0":{"input_activations":{"actorder":null,"block_structure":null,"dynamic":true,
           "group_size":null,"num_bits":8,"observer":"memoryless","observer_kwargs":{},"strategy":"token",
           "symmetric":true,"type":"float"},"output_activations":null,"targets":["Linear"],"weights":{
           "block_structure":null,"dynamic":false,"group_size":null,"num_bits":8,"observer":"minmax",
           "observer_kwargs":{},"strategy":"channel","symmetric":true,"type":"float"}}},
           "format":"float-quantized","ignore":["lm_head"],"kv_cache_scheme":null,
           "quant_method":"compressed-tensors","quantization_status":"frozen"})",
       "compressed-tensors, float-quantized, 8 bits, a scale per row"},
      // unsloth/Llama-3.2-1B-Instruct-bnb-4bit
      {R"({"_load_in_4bit":true,"_load_in_8bit":false,"bnb_4bit_compute_dtype":"bfloat16",
           "bnb_4bit_quant_storage":"uint8","bnb_4bit_quant_type":"nf4","bnb_4bit_use_double_quant":true,
           "llm_int8_enable_fp32_cpu_offload":false,"llm_int8_has_fp16_weight":false,
           "llm_int8_skip_modules":["lm_head","model.layers.1.mlp"],"llm_int8_threshold":6.0,"load_in_4bit":true,
           "load_in_8bit":false,"quant_method":"bitsandbytes"})",
       "bitsandbytes, nf4"},
  };
  for (const auto& [config, says] : published) EXPECT_EQ(description_of(config), says);
}

TEST(Quantisation, RefusesWhatItDoesNotUnpack) {
  const std::string group =
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":)";
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"([])", "quantization_config: found an array of 0, expected an object"},
      {R"({})", "no quant_method"},
      {R"({"quant_method":7})", "quant_method: found"},
      {R"({"quant_method":"hqq"})", "the quant_method \"hqq\""},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4"})", "the quant_method \"modelopt\""},
      {R"({"quant_method":"quanto"})", "one of mxfp4, fp8, compressed-tensors, gptq, awq, bitsandbytes"},
      {R"({"quant_method":"gptq"})", "bits"},
      {R"({"quant_method":"gptq","bits":5})",
       "quantization_config.bits: found 5, expected one of 2, 3, 4, 8 bits"},
      {R"({"quant_method":"gptq","bits":4,"group_size":0})", "group_size: found 0"},
      {R"({"quant_method":"gptq","bits":4,"group_size":"128"})", "group_size: found"},
      {R"({"quant_method":"gptq","bits":4,"desc_act":1})", "desc_act: found"},
      {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})",
       "found \"marlin\", expected \"gptq\""},
      {R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})", "is_marlin_format"},
      {R"({"quant_method":"gptq","bits":4,"dynamic":{"+:.*":{"bits":8}}})", "settings of single modules"},
      {R"({"quant_method":"awq","bits":4,"version":"gemv"})", "version: found \"gemv\", expected \"gemm\""},
      {R"({"quant_method":"awq","bits":8})", "bits: found 8"},
      {R"({"quant_method":"awq","zero_point":false})", "zero_point: found false"},
      {R"({"quant_method":"fp8","weight_block_size":[128]})", "weight_block_size: found a list of 1"},
      {R"({"quant_method":"fp8","weight_block_size":[128,0]})", "weight_block_size[1]"},
      {R"({"quant_method":"fp8","expert_dtype":"fp4"})", "expert_dtype: found \"fp4\""},
      {R"({"quant_method":"fp8","modules_to_not_convert":"lm_head"})", "modules_to_not_convert"},
      {R"({"quant_method":"bitsandbytes"})", "neither load_in_4bit nor load_in_8bit"},
      {R"({"load_in_4bit":true,"bnb_4bit_quant_type":"nf3"})", "found \"nf3\", expected \"nf4\" or \"fp4\""},
      {R"({"quant_method":"compressed-tensors"})", "config_groups"},
      {R"({"quant_method":"compressed-tensors","config_groups":{}})", "no group with weights"},
      {group + R"(["Linear"]}})", "config_groups.g: found an array"},
      {group + R"({"weights":{"num_bits":3}}}})", "weights.num_bits: found 3"},
      {group + R"({"weights":{"num_bits":4,"type":"float"}}}})", "4 bits of floats"},
      {group + R"({"weights":{"num_bits":4,"strategy":"token"}}}})", "found \"token\""},
      {group + R"({"weights":{"num_bits":4,"strategy":"group"}}}})", "no group_size"},
      {group + R"({"format":"marlin-24","weights":{"num_bits":4}}}})", "the format \"marlin-24\""},
      {group + R"({"weights":{"num_bits":4}}},"sparsity_config":{"format":"sparse-24-bitmask"}})",
       "sparse-24"},
      {group + R"({"weights":{"num_bits":4}}},"transform_config":{"config_groups":{"R1":{}}}})",
       "a rotation"},
  };
  for (const auto& [config, says] : refused) {
    EXPECT_THAT(refusal(config), HasSubstr(says)) << config;
    EXPECT_THAT(refusal(config), HasSubstr("config.json: quantization_config")) << config;
  }
}

}  // namespace

}  // namespace keyscope::capture
