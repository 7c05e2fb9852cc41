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

std::string described(const std::string& config) {
  return read_quantisation({{"quantization_config", parse_json(config)}}, "config.json").description();
}

std::string refusal(const std::string& config) {
  try {
    described(config);
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
  EXPECT_EQ(described(R"({"quant_method":"gptq","bits":4,"group_size":128})"), "gptq, 4 bits, groups of 128");
  EXPECT_EQ(described(R"({"quant_method":"gptq","bits":3,"group_size":-1,"desc_act":true})"),
            "gptq, 3 bits, one group, desc_act");
  EXPECT_EQ(described(R"({"quant_method":"awq","bits":4,"group_size":64,"version":"GEMM"})"),
            "awq, 4 bits, groups of 64");
  EXPECT_EQ(described(R"({"quant_method":"mxfp4"})"), "mxfp4, 4 bits, groups of 32");
  EXPECT_EQ(described(R"({"quant_method":"fp8"})"), "fp8, 8 bits, blocks of 128 x 128");
  EXPECT_EQ(described(R"({"quant_method":"fp8","weight_block_size":null})"),
            "fp8, 8 bits, a scale per row or tensor");
  EXPECT_EQ(described(R"({"load_in_4bit":true,"bnb_4bit_quant_type":"nf4"})"), "bitsandbytes, nf4");
  EXPECT_EQ(described(R"({"quant_method":"bitsandbytes","load_in_8bit":true})"), "bitsandbytes, int8");
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

TEST(Quantisation, RefusesWhatItDoesNotUnpack) {
  const std::string group =
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":)";
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"([])", "quantization_config: found an array of 0, expected an object"},
      {R"({})", "no quant_method"},
      {R"({"quant_method":7})", "quant_method: found"},
      {R"({"quant_method":"hqq"})", "the quant_method \"hqq\""},
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
