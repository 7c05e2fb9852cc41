#include "capture/model/config.hpp"

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/model/family.hpp"
#include "capture/model/memory.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

using Folder = test::ConfigFolder;

TEST(Config, ReadsEveryField) {
  Folder folder;
  folder.config()["rope_theta"] = 500000;
  const ModelConfig config = folder.read();
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.n_layers, 2);
  EXPECT_EQ(config.n_heads, 4);
  EXPECT_EQ(config.n_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.hidden_size, 24);
  EXPECT_EQ(config.intermediate_size, 40);
  EXPECT_EQ(config.vocab_size, 50);
  EXPECT_EQ(config.context_length, 512);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kNone);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_EQ(config.raw_json, json_text(folder.config()));
}

TEST(Config, FillsInWhatTransformersFillsIn) {
  Folder folder;
  for (const char* name : {"num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps",
                           "rope_theta", "tie_word_embeddings", "torch_dtype", "eos_token_id", "hidden_act"})
    folder.config().erase(name);
  const ModelConfig config = folder.read();
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 6);
  EXPECT_EQ(config.context_length, 2048);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_token_ids, IsEmpty());
}

TEST(Config, ReadsOldAndNewSpellings) {
  Folder folder;
  folder.config().erase("torch_dtype");
  folder.config().erase("rope_theta");
  folder.config()["dtype"] = "bfloat16";
  folder.config()["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 500.0},
                                        {"factor", 8.0},           {"low_freq_factor", 1.0},
                                        {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  const ModelConfig config = folder.read();
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_EQ(config.rope_theta, 500);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(config.rope_scaling.factor, 8);
  EXPECT_EQ(config.rope_scaling.original_context, 64);

  Folder old;
  old.config()["torch_dtype"] = "torch.float16";
  old.config()["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  EXPECT_EQ(old.read().rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(old.read().rope_scaling.factor, 2);
  EXPECT_EQ(old.read().dtype, "float16");
}

TEST(Config, EndOfTextIdsComeFromTheGenerationConfigFirst) {
  Folder folder;
  EXPECT_THAT(folder.read().eos_token_ids, ElementsAre(2));
  folder.config()["eos_token_id"] = {3, 4};
  EXPECT_THAT(folder.read().eos_token_ids, ElementsAre(3, 4));
  folder.write("generation_config.json", R"({"eos_token_id": [5, 6]})");
  EXPECT_THAT(folder.read().eos_token_ids, ElementsAre(5, 6));
  folder.write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(folder.read().eos_token_ids, ElementsAre(3, 4));
  folder.write("generation_config.json", "not json");
  EXPECT_THAT(folder.complaint(), HasSubstr("generation_config.json"));
}

struct Fault {
  const char* name;
  const char* field;
  Json value;
  const char* says;
};

class FaultyConfig : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultyConfig, IsRefusedByFileAndField) {
  Folder folder;
  folder.config()[GetParam().field] = GetParam().value;
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("config.json"), HasSubstr(GetParam().says)));
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> kFaults = {
      {"UnknownArchitecture", "model_type", "unheard_of", "\"unheard_of\", expected one of llama"},
      {"RefusedArchitecture", "model_type", "mamba", "\"mamba\", expected a family that is supported"},
      {"NoArchitecture", "model_type", nullptr, "model_type"},
      {"AnotherHead", "architectures", {"LlamaForSequenceClassification"}, "LlamaForSequenceClassification"},
      {"ArchitecturesNoList", "architectures", 3, "architectures"},
      {"NoLayers", "num_hidden_layers", 0, "num_hidden_layers"},
      {"NegativeLayers", "num_hidden_layers", -1, "num_hidden_layers"},
      {"FractionalHeads", "num_attention_heads", 4.5, "4.5"},
      {"TextForANumber", "hidden_size", "24", "hidden_size"},
      {"HeadsThatDoNotDivide", "num_key_value_heads", 3, "num_key_value_heads is 3"},
      {"MoreKvHeadsThanHeads", "num_key_value_heads", 8, "num_key_value_heads is 8"},
      {"OddHeadDim", "head_dim", 7, "head_dim is 7"},
      {"HugeHidden", "hidden_size", 9.3e18, "hidden_size"},
      {"BeyondInt64", "vocab_size", 18446744073709551615ULL, "vocab_size"},
      {"NoVocabulary", "vocab_size", nullptr, "vocab_size"},
      {"ZeroEpsilon", "rms_norm_eps", 0, "rms_norm_eps"},
      {"NegativeTheta", "rope_theta", -1, "rope_theta"},
      {"AnotherActivation", "hidden_act", "gelu", "hidden_act is \"gelu\""},
      {"UnknownScaling", "rope_scaling", {{"rope_type", "proportional"}, {"factor", 4}}, "proportional"},
      {"LongRopeWithoutFactors", "rope_scaling", {{"rope_type", "longrope"}}, "short_factor is nothing"},
      {"LongRopeOfAnotherSize",
       "rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {1, 2, 3, 4}}},
       "short_factor is a list of 2, expected a list of 4"},
      {"LongRopeOfText",
       "rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1, 2, 3, 4}}, {"long_factor", {1, 2, 3, "4"}}},
       "long_factor"},
      {"LongRopeThatVanishes",
       "rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1, 2, 3, 4}}, {"long_factor", {1, 2, 3, 0}}},
       "long_factor"},
      {"WindowsThatLlamaHasNot",
       "layer_types",
       {"full_attention", "sliding_attention"},
       "full_attention in every place"},
      {"LayerTypesOfAnotherSize", "layer_types", {"full_attention"}, "a list of 2"},
      {"UnknownLayerType", "layer_types", {"full_attention", "linear_attention"}, "linear_attention"},
      {"Bidirectional", "use_bidirectional_attention", true, "use_bidirectional_attention"},
      {"NotCausal", "is_causal", false, "is_causal is false"},
      {"YarnUpsideDown",
       "rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"beta_slow", 2}},
       "beta_fast"},
      {"ScalingNoObject", "rope_scaling", 8, "rope_scaling"},
      {"ScalingWithoutFactor", "rope_scaling", {{"type", "linear"}}, "factor"},
      {"ScalingUpsideDown",
       "rope_scaling",
       {{"rope_type", "llama3"},
        {"factor", 8},
        {"low_freq_factor", 4},
        {"high_freq_factor", 1},
        {"original_max_position_embeddings", 64}},
       "high_freq_factor"},
      {"ScalingWithoutKind", "rope_scaling", {{"factor", 8}}, "rope_type is nothing"},
      {"ScalingThatVanishes", "rope_scaling", {{"rope_type", "linear"}, {"factor", 1e-300}}, "factor"},
      {"ThetaThatVanishes", "rope_theta", 5e-324, "rope_theta"},
      {"TwoThetas", "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7}}, "rope_theta is 7"},
      {"TwoDtypes", "dtype", "bfloat16", "as dtype says"},
      {"PartialRotary", "partial_rotary_factor", 0.5, "partial_rotary_factor"},
      {"UnknownDtype", "torch_dtype", "int8", "int8"},
      {"Quantized", "quantization_config", {{"quant_method", "gptq"}}, "quantization_config"},
      {"FlagNoFlag", "tie_word_embeddings", "yes", "tie_word_embeddings"},
      {"NegativeEos", "eos_token_id", -2, "eos_token_id"},
      {"EosText", "eos_token_id", {"</s>"}, "eos_token_id"}};
  return kFaults;
}

INSTANTIATE_TEST_SUITE_P(All, FaultyConfig, ::testing::ValuesIn(faults()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Config, TheClassWithoutAHeadIsKnownByItsName) {
  Folder folder;
  EXPECT_FALSE(folder.read().headless);
  folder.config()["architectures"] = {"LlamaModel"};
  EXPECT_TRUE(folder.read().headless);
  folder.config()["architectures"] = {"LlamaModel", "LlamaForCausalLM"};
  EXPECT_FALSE(folder.read().headless);
}

// Python writes them as they are, and reads them back.
TEST(Config, NumbersThatJsonHasNotDisturbOnlyWhoAsksForThem) {
  Folder folder;
  const std::string sound = json_text(folder.config());
  const auto with = [&](const std::string& fields) {
    folder.write("config.json", "{" + fields + "," + sound.substr(1));
    return read_config(folder.path());
  };
  const std::string unasked = R"("a": NaN, "b": [Infinity, {"c": -Infinity}], "d\"": "NaN, \\\" Infinity")";
  EXPECT_EQ(with(unasked).hidden_size, 24);
  EXPECT_THAT(with(unasked).raw_json, HasSubstr("\"a\": NaN"));
  folder.config()["rms_norm_eps"] = "EPS";
  std::string text = json_text(folder.config());
  text.replace(text.find("\"EPS\""), 5, "NaN");
  folder.write("config.json", text);
  EXPECT_THAT([&] { read_config(folder.path()); },
              ::testing::ThrowsMessage<FileError>(HasSubstr("rms_norm_eps is \"NaN\", expected a positive")));
}

TEST(Config, ScalingsMayBeSaidTwiceWhereTheyAgree) {
  const Json yarn{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  const Json llama3{{"rope_type", "llama3"},
                    {"factor", 8},
                    {"low_freq_factor", 1},
                    {"high_freq_factor", 4},
                    {"original_max_position_embeddings", 64}};
  const Json linear{{"rope_type", "linear"}, {"factor", 2}};
  const Json none{{"rope_type", "default"}};
  for (const Json& scaling : {yarn, llama3, linear, none}) {
    Folder folder;
    folder.config()["rope_theta"] = 500.0;
    folder.config()["rope_scaling"] = scaling;
    const ModelConfig once = folder.read();
    Json both = scaling;
    both["rope_theta"] = 500;
    both["type"] = both["rope_type"];
    folder.config()["rope_parameters"] = both;
    folder.config()["rope_scaling"] = scaling == none ? Json() : scaling;
    EXPECT_EQ(folder.complaint(), "") << json_text(scaling);
    EXPECT_EQ(folder.read().rope_scaling, once.rope_scaling) << json_text(scaling);
    EXPECT_EQ(folder.read().rope_theta, 500);
    folder.config().erase("rope_theta");
    folder.config()["rope_scaling"] = nullptr;
    EXPECT_EQ(folder.read().rope_scaling, once.rope_scaling) << json_text(scaling);
    EXPECT_EQ(folder.read().rope_theta, 500);
  }
}

TEST(Config, RefusesTwoScalingsThatDisagree) {
  Folder folder;
  const Json linear{{"rope_type", "linear"}, {"factor", 4}};
  folder.config()["rope_scaling"] = linear;
  folder.config()["rope_parameters"] = linear;
  EXPECT_EQ(folder.complaint(), "");
  folder.config()["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_THAT(folder.complaint(), AllOf(HasSubstr("rope_parameters"), HasSubstr("rope_scaling")));
}

TEST(Config, RefusesWhatIsNoConfiguration) {
  Folder folder;
  const auto complaint = [&](const std::string& text) -> std::string {
    folder.write("config.json", text);
    try {
      read_config(folder.path());
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  };
  for (const char* text : {"", "[1]", "{\"model_type\": \"llama\"", "\xFF\xFE", "null"})
    EXPECT_THAT(complaint(text), HasSubstr("config.json")) << text;
  EXPECT_THAT(complaint(R"({"model_type":"llama","hidden_size":24,"hidden_size":32})"), HasSubstr("twice"));
}

TEST(Config, SaysThatItIsMissing) {
  const test::RandomModel nothing;
  EXPECT_THROW(read_config(nothing.folder()), FileError);
}

// Real configurations: the families that are known are read, every other is refused by its name.
TEST(Config, RealConfigurations) {
  const char* data = std::getenv("KEYSCOPE_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "KEYSCOPE_TEST_DATA is not set";
  int n_known = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(data) / "configs")) {
    const Json json = parse_json(read_file(entry.path()));
    Folder folder;
    folder.config() = json;
    const std::string family = json.at("model_type");
    if (find_family(family) != nullptr) {
      const ModelConfig config = folder.read();
      EXPECT_EQ(config.n_heads * config.head_dim % config.n_kv_heads, 0) << entry.path();
      EXPECT_EQ(config.context_length, json.at("max_position_embeddings")) << entry.path();
      if (json.contains("sliding_window") && json["sliding_window"].is_null()) {
        EXPECT_THAT(config.layer_windows, IsEmpty()) << entry.path();
      }
      if (family == "gemma3_text") {
        EXPECT_EQ(config.window(0), 512) << entry.path();
        EXPECT_EQ(config.window(5), 0) << entry.path();
      }
      ++n_known;
    } else {
      EXPECT_THAT(folder.complaint(), HasSubstr('"' + family + '"')) << entry.path();
    }
  }
  EXPECT_GT(n_known, 0);
}

using ::testing::Not;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr WeightBytes kWeights{.all = 26 * kGiB, .outside_layers = 2 * kGiB, .largest_layer = kGiB};

std::string complaint(bool may_stream, std::int64_t available) {
  try {
    choose_residency(kWeights, may_stream, available);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Residency, IsWholeWhereAllWeightsFit) {
  EXPECT_EQ(choose_residency(kWeights, false, 26 * kGiB), Residency::kWhole);
  EXPECT_EQ(choose_residency(kWeights, true, 33 * kGiB), Residency::kWhole);
}

TEST(Residency, IsStreamedWhereThreeLayersFitAndTheScheduleAllowsIt) {
  EXPECT_EQ(choose_residency(kWeights, true, 30 * kGiB), Residency::kStreamed) << "no room to work in";
  EXPECT_EQ(choose_residency(kWeights, true, 5 * kGiB), Residency::kStreamed);
}

TEST(Residency, ARefusalNamesBothFiguresAndTheScheduleThatWouldFit) {
  EXPECT_THAT(complaint(false, 24 * kGiB),
              AllOf(HasSubstr("26.0 GiB"), HasSubstr("24.0 GiB"), HasSubstr("block schedule"),
                    HasSubstr("--schedule layer) would need 5.0 GiB")));
  EXPECT_THAT(complaint(true, 4 * kGiB),
              AllOf(HasSubstr("5.0 GiB"), HasSubstr("4.0 GiB"), HasSubstr("layer schedule")));
  EXPECT_THAT(complaint(false, 4 * kGiB), AllOf(HasSubstr("26.0 GiB"), Not(HasSubstr("--schedule"))));
}

}  // namespace

}  // namespace keyscope::capture
