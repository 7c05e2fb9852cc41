// Packed weights against what other programs unpack them to (goldens/), against slow references, and against
// parts that do not fit each other.

#include "capture/model/packed_weight.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/random_packing.hpp"

namespace keyscope::capture {

namespace {

using test::TensorBytes;
using test::TensorMap;
using ::testing::HasSubstr;

const SafetensorsFile& packed_goldens() {
  static const SafetensorsFile file(std::filesystem::path(KEYSCOPE_SOURCE_DIR) /
                                    "tests/capture/model/goldens/quantised.golden.safetensors");
  return file;
}

nlohmann::json golden_configs() {
  const auto header = parse_json(packed_goldens().header());
  return parse_json(header["__metadata__"]["goldens"].get<std::string>())["configs"];
}

std::vector<std::string> golden_cases() {
  std::vector<std::string> cases;
  const auto configs = golden_configs();
  for (const auto& [name, config] : configs.items()) cases.push_back(name);
  return cases;
}

Quantisation quantisation_of(const nlohmann::json& config) {
  return read_quantisation({{"quantization_config", config}}, "config.json");
}

std::vector<float> unpacked(const StoredWeight& weight, std::int64_t first, std::int64_t n) {
  const std::int64_t entry = weight.n_elements() / weight.shape().front();
  std::vector<float> values(static_cast<std::size_t>(n * entry), std::numeric_limits<float>::quiet_NaN());
  weight.unpack(first, n, values.data());
  return values;
}

std::vector<std::uint32_t> bits_of_all(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// To the nearest, of two the even one.
float rounded_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000U);
}

class PackedGolden : public ::testing::TestWithParam<std::string> {
 protected:
  PackedGolden() {
    const std::string raw = GetParam() + "|", expected = raw + "=|";
    for (const auto& [name, tensor] : packed_goldens().tensors()) {
      if (name.starts_with(expected))
        expected_.emplace(name.substr(expected.size()), &tensor);
      else if (name.starts_with(raw))
        raw_.emplace(name.substr(raw.size()), &tensor);
    }
    weights_ = weights_of(raw_, quantisation_of(golden_configs()[GetParam()]));
  }

  RawTensors raw_, expected_;
  WeightTable weights_;
};

// To the same numbers: of a zero, references do not agree on the sign.
TEST_P(PackedGolden, UnpacksToTheSameNumbers) {
  ASSERT_EQ(weights_.size(), expected_.size());
  for (const auto& [name, tensor] : expected_) {
    ASSERT_TRUE(weights_.contains(name)) << name;
    const StoredWeight& weight = *weights_.at(name);
    ASSERT_EQ(weight.shape(), tensor->shape);
    EXPECT_FALSE(weight.is_plain());
    std::vector<float> expected(static_cast<std::size_t>(tensor->n_elements()));
    widen(*tensor, 0, tensor->n_elements(), expected.data());
    auto found = unpacked(weight, 0, weight.shape().front());
    if (tensor->dtype == "BF16")
      for (float& value : found) value = rounded_to_bfloat16(value);
    EXPECT_EQ(found, expected) << weight.form();
  }
}

TEST_P(PackedGolden, EveryRangeOfEntriesIsThatOfTheWhole) {
  for (const auto& [name, weight] : weights_) {
    const std::int64_t n_all = weight->shape().front();
    const std::int64_t entry = weight->n_elements() / n_all;
    const auto whole = bits_of_all(unpacked(*weight, 0, n_all));
    for (std::int64_t first = 0; first < n_all; ++first)
      for (const std::int64_t n : {std::int64_t{1}, std::int64_t{3}, n_all - first}) {
        if (first + n > n_all) continue;
        const auto part = bits_of_all(unpacked(*weight, first, n));
        const std::vector<std::uint32_t> expected(whole.begin() + first * entry,
                                                  whole.begin() + (first + n) * entry);
        ASSERT_EQ(part, expected) << name << ": " << first << " and " << n << " on";
      }
  }
}

TEST_P(PackedGolden, ItsBytesLieInTheFile) {
  const std::string_view data = packed_goldens().data();
  for (const auto& [name, weight] : weights_)
    for (std::int64_t first = 0; first < weight->shape().front(); ++first)
      for (const auto span : weight->bytes(first, 1)) {
        const auto* begin = reinterpret_cast<const char*>(span.data());
        EXPECT_TRUE(begin >= data.data() && begin + span.size() <= data.data() + data.size()) << name;
      }
}

// A part that is left out is missed, or changes what the others mean; it never is a weight of its own.
TEST_P(PackedGolden, AMissingPartIsNamed) {
  for (const auto& [name, tensor] : raw_) {
    if (name.ends_with("weight_format") || name.ends_with("g_idx") || name.ends_with(".nested_absmax"))
      continue;
    RawTensors fewer = raw_;
    fewer.erase(name);
    try {
      const auto weights = weights_of(fewer, quantisation_of(golden_configs()[GetParam()]));
      // Of a zero point that symmetric scales do not need, and of the leading part alone, nothing is left.
      EXPECT_TRUE(name.ends_with("zero_point") || fewer.empty()) << name;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), ::testing::AnyOf(HasSubstr("missing"), HasSubstr("is U8, expected F32")))
          << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedGolden, ::testing::ValuesIn(golden_cases()),
                         [](const auto& each) { return each.param; });

// Packed parts in memory.
class PackedParts {
 public:
  TensorMap tensors;
  nlohmann::json config;

  WeightTable weights() {
    stored_.clear();
    RawTensors raw;
    for (const auto& [name, tensor] : tensors) {
      stored_[name] = {tensor.dtype, tensor.shape,
                       std::as_bytes(std::span(tensor.bytes.data(), tensor.bytes.size())), "a.safetensors"};
      raw.emplace(name, &stored_[name]);
    }
    return weights_of(raw, quantisation_of(config));
  }

  // What making the weights, or unpacking them, is refused with.
  std::string complaint() {
    try {
      for (const auto& [name, weight] : weights())
        if (!weight->is_plain()) unpacked(*weight, 0, weight->shape().front());
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  }

  void set(const std::string& name, const TensorBytes& tensor) { tensors[name] = tensor; }
  template <typename T>
  void put(const std::string& name, std::size_t at, T value) {
    std::memcpy(tensors.at(name).bytes.data() + at * sizeof(T), &value, sizeof(T));
  }

 private:
  std::map<std::string, StoredTensor> stored_;
};

PackedParts random_parts(const std::string& packing, std::int64_t rows = 64, std::int64_t columns = 96) {
  PackedParts parts;
  std::uint64_t state = 7;
  test::random_packing(packing).add(parts.tensors, "m", rows, columns, state);
  parts.config = parse_json(json_text(test::random_packing(packing).config));
  return parts;
}

std::uint32_t word_of(const TensorBytes& tensor, std::int64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, tensor.bytes.data() + 4 * index, sizeof word);
  return word;
}

float float_of(const TensorBytes& tensor, std::int64_t index) {
  return std::bit_cast<float>(word_of(tensor, index));
}

// Larger than a tile in both directions, and no multiple of one.
TEST(PackedColumns, GptqIsWhatItsFormulaSays) {
  constexpr std::int64_t kRows = 104, kColumns = 160;
  PackedParts parts = random_parts("gptq", kRows, kColumns);
  const auto weights = parts.weights();
  const auto found = unpacked(*weights.at("m.weight"), 0, kRows);
  for (std::int64_t o = 0; o < kRows; ++o)
    for (std::int64_t i = 0; i < kColumns; ++i) {
      const std::int64_t g = word_of(parts.tensors["m.g_idx"], i);
      const auto q = (word_of(parts.tensors["m.qweight"], i / 8 * kRows + o) >> (4 * (i % 8))) & 15;
      const auto z = (word_of(parts.tensors["m.qzeros"], g * kRows / 8 + o / 8) >> (4 * (o % 8))) & 15;
      const float s = float_of(parts.tensors["m.scales"], g * kRows + o);
      ASSERT_EQ(found[static_cast<std::size_t>(o * kColumns + i)],
                (static_cast<float>(q) - static_cast<float>((z + 1) % 16)) * s)
          << o << ", " << i;
    }
}

TEST(PackedColumns, AwqIsWhatItsFormulaSays) {
  constexpr std::int64_t kRows = 104, kColumns = 160;
  constexpr std::array kNibbles{0, 4, 1, 5, 2, 6, 3, 7};  // where output o % 8 lies in its word
  PackedParts parts = random_parts("awq", kRows, kColumns);
  const auto weights = parts.weights();
  const auto found = unpacked(*weights.at("m.weight"), 0, kRows);
  for (std::int64_t o = 0; o < kRows; ++o)
    for (std::int64_t i = 0; i < kColumns; ++i) {
      const int shift = 4 * kNibbles[static_cast<std::size_t>(o % 8)];
      const auto q = (word_of(parts.tensors["m.qweight"], i * kRows / 8 + o / 8) >> shift) & 15;
      const auto z = (word_of(parts.tensors["m.qzeros"], i / 32 * kRows / 8 + o / 8) >> shift) & 15;
      const float s = float_of(parts.tensors["m.scales"], i / 32 * kRows + o);
      ASSERT_EQ(found[static_cast<std::size_t>(o * kColumns + i)],
                (static_cast<float>(q) - static_cast<float>(z)) * s)
          << o << ", " << i;
    }
}

TEST(PackedBlocks, ExpertsAreReadOneByOne) {
  PackedParts parts;
  parts.config = {{"quant_method", "mxfp4"}};
  // Expert 1, output 2, second block: 1.5 and -6 first, times 2^3.
  parts.set("e.down_proj_blocks", {"U8", {2, 3, 2, 16}, std::string(2 * 3 * 2 * 16, '\0')});
  parts.set("e.down_proj_scales", {"U8", {2, 3, 2}, std::string(2 * 3 * 2, '\x7F')});
  parts.put<std::uint8_t>("e.down_proj_blocks", ((1 * 3 + 2) * 2 + 1) * 16, 0xF3);
  parts.put<std::uint8_t>("e.down_proj_scales", (1 * 3 + 2) * 2 + 1, 130);
  const auto weights = parts.weights();
  const StoredWeight& weight = *weights.at("e.down_proj");
  EXPECT_EQ(weight.shape(), (Shape{2, 64, 3}));
  const auto found = unpacked(weight, 1, 1);
  EXPECT_EQ(found[32 * 3 + 2], 12);
  EXPECT_EQ(found[33 * 3 + 2], -48);
  EXPECT_EQ(std::ranges::count(found, 0.0F), 64 * 3 - 2);
  ASSERT_EQ(weight.bytes(1, 1).size(), 2U);
  EXPECT_EQ(weight.bytes(1, 1)[0].size(), 3U * 2 * 16);
}

TEST(Float8, ValuesOfKnownCodes) {
  const auto e4m3 = float8_values("F8_E4M3"), e5m2 = float8_values("F8_E5M2");
  EXPECT_EQ(e4m3[0x38], 1);
  EXPECT_EQ(e4m3[0x7E], 448);
  EXPECT_EQ(e4m3[0x01], std::ldexp(1.0F, -9));
  EXPECT_EQ(e4m3[0xB8], -1);
  EXPECT_TRUE(std::isnan(e4m3[0x7F]) && std::isnan(e4m3[0xFF]));
  EXPECT_EQ(e5m2[0x3C], 1);
  EXPECT_EQ(e5m2[0x7B], 57344);
  EXPECT_TRUE(std::isinf(e5m2[0x7C]));
}

// --- which modules ---

TEST(WeightsOf, WhatIsPlainStaysPlain) {
  PackedParts parts = random_parts("gptq");
  parts.set("lm_head.weight", {"F32", {1, 2}, std::string(8, '\0')});
  const auto weights = parts.weights();
  EXPECT_TRUE(weights.at("lm_head.weight")->is_plain());
  EXPECT_FALSE(weights.at("m.weight")->is_plain());
  EXPECT_TRUE(weights.contains("m.bias"));
  EXPECT_EQ(weights.size(), 3U);
}

TEST(WeightsOf, Fp8WithoutAWordOfBlocksHasTheScalesThatAreThere) {
  PackedParts parts = random_parts("fp8", 64, 160);
  parts.tensors.erase("m.weight_scale_inv");
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{64}, Shape{64, 1}, Shape{1, 2}}) {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    parts.set("m.weight_scale", {"F32", shape, std::string(static_cast<std::size_t>(4 * n), '\0')});
    parts.config = {{"quant_method", "fp8"}};
    EXPECT_EQ(parts.complaint(), "") << n;
    parts.config["weight_block_size"] = {64, 96};
    EXPECT_EQ(parts.complaint().empty(), n == 2) << parts.complaint();
  }
}

TEST(WeightsOf, RefusesAPackedModuleThatIsSaidToBePlain) {
  for (const auto& [packing, field] :
       {std::pair{"awq", "modules_to_not_convert"}, std::pair{"integers", "ignore"},
        std::pair{"nf4", "llm_int8_skip_modules"}}) {
    PackedParts parts = random_parts(packing);
    for (const char* entry : {"n", "mm", "m_proj", "re:n.*"}) {
      parts.config[field] = {entry};
      EXPECT_EQ(parts.complaint(), "") << packing << " " << entry;
    }
    parts.config[field] = {"n", "m"};
    EXPECT_THAT(parts.complaint(), HasSubstr("config.json says that its module is not")) << packing;
  }
  PackedParts parts = random_parts("integers");
  parts.config["ignore"] = {"re:[a-m]$"};
  EXPECT_THAT(parts.complaint(), HasSubstr("config.json says that its module is not"));
  parts.config["ignore"] = {"re:(((a"};
  EXPECT_THAT(parts.complaint(), HasSubstr("config.json: the expression"));
}

TEST(WeightsOf, AnEntryEndsWhereAPartOfTheNameDoes) {
  PackedParts parts = random_parts("awq");
  TensorMap renamed;
  for (const auto& [name, tensor] : parts.tensors)
    renamed["layers.11.mlp.gate_proj" + name.substr(1)] = tensor;
  parts.tensors = renamed;
  for (const char* entry : {"layers.1", "layers.11.mlp.gate", "mlp", "layers.*.mlp.gate", "gate"}) {
    parts.config["modules_to_not_convert"] = {entry};
    EXPECT_EQ(parts.complaint(), "") << entry;
  }
  for (const char* entry :
       {"layers.11", "layers.11.", "gate_proj", "layers.*.mlp", "layers.*", "layers.(11|12)"}) {
    parts.config["modules_to_not_convert"] = {entry};
    EXPECT_THAT(parts.complaint(), HasSubstr("says that its module is not")) << entry;
  }
}

TEST(WeightsOf, TheSchemeOfAModuleIsThatOfItsNameFirst) {
  const auto scheme = [](const char* group, const char* target) {
    PackingScheme made;
    made.group = group;
    made.targets = {target};
    return made;
  };
  Quantisation quantisation;
  quantisation.schemes = {scheme("class", "Linear"), scheme("expression", "re:.*down_proj$"),
                          scheme("name", "layers.0.down_proj")};
  EXPECT_EQ(scheme_of(quantisation, "layers.0.down_proj")->group, "name");
  EXPECT_EQ(scheme_of(quantisation, "layers.1.down_proj")->group, "expression");
  EXPECT_EQ(scheme_of(quantisation, "layers.1.up_proj")->group, "class");
  EXPECT_EQ(scheme_of(quantisation, "model.embed_tokens"), nullptr);
}

// --- hostile parts ---

struct PackedDamage {
  const char* name;
  const char* packing;
  void (*change)(PackedParts& parts);
  const char* says;
};

class DamagedPacking : public ::testing::TestWithParam<PackedDamage> {};

TEST_P(DamagedPacking, IsRefusedWithItsReason) {
  PackedParts parts = random_parts(GetParam().packing);
  ASSERT_EQ(parts.complaint(), "");
  GetParam().change(parts);
  const std::string complaint = parts.complaint();
  EXPECT_THAT(complaint, HasSubstr(GetParam().says));
  EXPECT_THAT(complaint, ::testing::StartsWith("a.safetensors: tensor \"m."));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<PackedDamage>& packed_damages() {
  static const std::vector<PackedDamage> damages{
      {"ScaleNan", "gptq", [](PackedParts& p) { p.put("m.scales", 70, kNan); }, "holds nan at 70"},
      {"ScaleInfinite", "awq", [](PackedParts& p) { p.put("m.scales", 0, -kInfinity); }, "holds -inf at 0"},
      {"BlockScaleNan", "fp8", [](PackedParts& p) { p.put("m.weight_scale_inv", 5, kNan); },
       "holds nan at 5"},
      {"GroupScaleNan", "integers", [](PackedParts& p) { p.put("m.weight_scale", 9, kNan); },
       "holds nan at 9"},
      {"PowerNan", "float4", [](PackedParts& p) { p.put<std::uint8_t>("m.weight_scale", 4, 255); },
       "holds nan at 4"},
      {"TableNan", "nf4", [](PackedParts& p) { p.put("m.weight.quant_map", 3, kNan); }, "holds nan at 3"},
      {"NestedScaleNan", "nf4", [](PackedParts& p) { p.put("m.weight.nested_absmax", 0, kNan); },
       "holds nan"},
      {"RowScaleNan", "int8", [](PackedParts& p) { p.put("m.SCB", 1, kNan); }, "holds nan at 1"},
      {"GroupTooLarge", "gptq", [](PackedParts& p) { p.put<std::int32_t>("m.g_idx", 2, 3); }, "holds 3 at 2"},
      {"GroupNegative", "gptq", [](PackedParts& p) { p.put<std::int32_t>("m.g_idx", 0, -1); },
       "holds -1 at 0"},
      {"OrderTooShort", "gptq",
       [](PackedParts& p) {
         p.set("m.g_idx", {"I32", {2}, std::string(8, '\0')});
       },
       "is [2], expected [96]"},
      {"NoOrder", "gptq", [](PackedParts& p) { p.tensors.erase("m.g_idx"); },
       "m.g_idx, which it needs, is missing"},
      {"NoZeros", "gptq", [](PackedParts& p) { p.tensors.erase("m.qzeros"); },
       "\"m.qzeros\", which it needs"},
      {"NoWords", "gptq", [](PackedParts& p) { p.tensors.erase("m.qweight"); }, "packed values are missing"},
      {"WordsAsFloats", "gptq", [](PackedParts& p) { p.tensors["m.qweight"].dtype = "F32"; },
       "is F32, expected I32"},
      {"ScalesAsBytes", "awq",
       [](PackedParts& p) {
         p.set("m.scales", {"U8", {3, 64}, std::string(192, '\0')});
       },
       "is U8, expected F16"},
      {"ZerosOfOtherShape", "awq",
       [](PackedParts& p) {
         p.tensors["m.qzeros"].shape = {8, 3};
       },
       "is [8, 3], expected [3, 8]"},
      {"GroupsDoNotDivide", "awq", [](PackedParts& p) { p.config["group_size"] = 40; }, "has 96 inputs"},
      {"NotWholeIntegers", "gptq",
       [](PackedParts& p) {
         p.config["bits"] = 3;
         p.tensors["m.qweight"].shape = {16, 48};
       },
       "do not hold whole integers of 3 bits"},
      {"NoMatrix", "gptq", [](PackedParts& p) { p.tensors["m.qweight"].shape = {12 * 64}; },
       "expected 2 dimensions"},
      {"Empty", "gptq",
       [](PackedParts& p) {
         p.set("m.qweight", {"I32", {0, std::int64_t{1} << 62}, ""});
       },
       "none of them 0"},
      {"ShapeTooLarge", "integers",
       [](PackedParts& p) { p.put<std::int64_t>("m.weight_shape", 1, std::int64_t{1} << 62); },
       "does not fit"},
      {"ShapeNegative", "integers", [](PackedParts& p) { p.put<std::int64_t>("m.weight_shape", 1, -96); },
       "does not fit"},
      {"ShapeOfOtherRows", "integers", [](PackedParts& p) { p.put<std::int64_t>("m.weight_shape", 0, 63); },
       "does not fit"},
      {"NoShape", "integers", [](PackedParts& p) { p.tensors.erase("m.weight_shape"); },
       "\"m.weight_shape\", which it needs"},
      {"ColumnsNotGroups", "integers", [](PackedParts& p) { p.put<std::int64_t>("m.weight_shape", 1, 95); },
       "expected a multiple of the groups' size, 32"},
      {"ColumnOrder", "integers",
       [](PackedParts& p) {
         p.set("m.weight_g_idx", {"I32", {96}, std::string(4 * 96, '\x01')});
       },
       "expected a group from 0 to 2"},
      {"NoScheme", "integers",
       [](PackedParts& p) { p.config["config_groups"]["group_0"]["targets"] = {"re:.*q_proj"}; },
       "no group in config.json has its module"},
      {"OtherFormat", "integers", [](PackedParts& p) { p.tensors["m.weight_packed"].dtype = "I64"; },
       "is I64, expected I32"},
      {"BlocksOfOtherShape", "fp8",
       [](PackedParts& p) {
         p.config["weight_block_size"] = {16, 96};
       },
       "is [2, 3], expected [4, 1] for"},
      {"NoBlockScales", "fp8", [](PackedParts& p) { p.tensors.erase("m.weight_scale_inv"); },
       "m.weight_scale_inv, which it needs, is missing"},
      {"ScalesOfAPlainWeight", "fp8",
       [](PackedParts& p) {
         p.set("m.weight", {"BF16", {1, 1}, std::string(2, '\0')});
       },
       "packed values are missing"},
      {"StateIsNoJson", "nf4",
       [](PackedParts& p) { p.tensors["m.weight.quant_state.bitsandbytes__nf4"].bytes[0] = 'x'; }, "JSON"},
      {"StateOfALargerShape", "nf4",
       [](PackedParts& p) {
         const std::string said = R"({"shape":[4611686018427387904,8],"blocksize":64})";
         p.set("m.weight.quant_state.bitsandbytes__nf4",
               {"U8", {static_cast<std::int64_t>(said.size())}, said});
       },
       "do not fit"},
      {"NoState", "nf4", [](PackedParts& p) { p.tensors.erase("m.weight.quant_state.bitsandbytes__nf4"); },
       "packed values are missing"},
      {"TooFewScales", "nf4",
       [](PackedParts& p) {
         p.set("m.weight.absmax", {"U8", {95}, std::string(95, '\0')});
       },
       "has 95 elements, expected 96"},
      {"ShortTable", "nf4",
       [](PackedParts& p) {
         p.set("m.weight.quant_map", {"F32", {8}, std::string(32, '\0')});
       },
       "is [8], expected [16]"},
      {"TwoPackings", "nf4",
       [](PackedParts& p) {
         p.set("m.weight.quant_state.bitsandbytes__fp4", p.tensors["m.weight.quant_state.bitsandbytes__nf4"]);
       },
       "one of two packings"},
      {"PackedAndPlain", "awq",
       [](PackedParts& p) {
         p.set("m.weight", {"F32", {1, 1}, std::string(4, '\0')});
       },
       "expected one of the two"},
  };
  return damages;
}

INSTANTIATE_TEST_SUITE_P(All, DamagedPacking, ::testing::ValuesIn(packed_damages()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace

}  // namespace keyscope::capture
