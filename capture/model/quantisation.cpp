#include "capture/model/quantisation.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::capture {

namespace {

using Strategy = PackingScheme::Strategy;

constexpr std::int64_t kLargestGroup = std::int64_t{1} << 31;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

// The first of several names of one field that is there.
std::optional<JsonField> any_of_names(const JsonField& fields, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto field = fields.optional(name)) return field;
  return std::nullopt;
}

std::vector<std::string> read_texts(const JsonField& fields, std::initializer_list<const char*> names) {
  std::vector<std::string> texts;
  if (const auto list = any_of_names(fields, names))
    list->for_each([&](const JsonField& each) { texts.push_back(each.string()); });
  return texts;
}

int read_bits(const JsonField& fields, std::initializer_list<const char*> names,
              std::initializer_list<std::int64_t> known, std::int64_t otherwise) {
  const auto field = any_of_names(fields, names);
  if (!field && otherwise == 0) fields.member(*names.begin());  // which says that it is missing
  const std::int64_t bits = field ? field->integer(INT32_MIN, INT32_MAX) : otherwise;
  if (std::ranges::find(known, bits) == known.end())
    field->fail(std::to_string(bits), fmt::format("one of {} bits", fmt::join(known, ", ")));
  return static_cast<int>(bits);
}

// -1, which is all inputs, becomes 0.
std::int64_t read_group_size(const JsonField& fields, std::initializer_list<const char*> names,
                             std::int64_t otherwise) {
  const auto field = any_of_names(fields, names);
  if (!field) return otherwise;
  const std::int64_t size = field->integer(-1, kLargestGroup);
  if (size == 0) field->fail("0", "-1 for all inputs, or how many share a scale");
  return std::max<std::int64_t>(size, 0);
}

std::pair<std::int64_t, std::int64_t> read_block(const JsonField& field) {
  std::vector<std::int64_t> sizes;
  const std::string expected = "a list of two sizes, rows and columns";
  if (!field.is_array()) field.fail_type(expected);
  field.for_each([&](const JsonField& each) { sizes.push_back(each.integer(1, kLargestGroup)); });
  if (sizes.size() != 2) field.fail(fmt::format("a list of {}", sizes.size()), expected);
  return {sizes[0], sizes[1]};
}

void read_mxfp4(const JsonField& fields, Quantisation& quantisation) {
  quantisation.bits = 4;
  quantisation.plain_modules = read_texts(fields, {"modules_to_not_convert"});
}

void read_fp8(const JsonField& fields, Quantisation& quantisation) {
  quantisation.bits = 8;
  quantisation.plain_modules = read_texts(fields, {"modules_to_not_convert", "ignored_layers"});
  if (const std::string expert = fields.string_or("expert_dtype", "fp8"); expert != "fp8")
    fields.member("expert_dtype").fail(shown(expert), "\"fp8\"");
  // Not given is 128 x 128 to Transformers and a scale per tensor to others; null is one per row or tensor.
  quantisation.block_rows = quantisation.block_columns = 128;
  quantisation.blocks_by_default = true;
  fields.for_each_member([&](const JsonField& field) {
    if (!field.path().ends_with(".weight_block_size")) return;
    quantisation.blocks_by_default = false;
    std::tie(quantisation.block_rows, quantisation.block_columns) =
        field.is_null() ? std::pair<std::int64_t, std::int64_t>{} : read_block(field);
  });
}

void read_gptq(const JsonField& fields, Quantisation& quantisation) {
  quantisation.bits = read_bits(fields, {"bits"}, {2, 3, 4, 8}, 0);
  quantisation.group_size = read_group_size(fields, {"group_size"}, 128);
  quantisation.desc_act = fields.boolean_or("desc_act", false);
  fields.boolean_or("sym", true);  // either way the zero points are in the file
  const auto format = any_of_names(fields, {"checkpoint_format", "format"});
  const std::string name = format ? lower(format->string()) : "gptq";
  if (name != "gptq" && name != "gptq_v2") format->fail(shown(name), "\"gptq\" or \"gptq_v2\"");
  quantisation.zeros_minus_one = name == "gptq";
  if (fields.boolean_or("is_marlin_format", false))
    fields.member("is_marlin_format").fail("true", "false: weights in GPTQ's own order");
  if (const auto dynamic = fields.optional("dynamic")) {
    bool any = false;
    dynamic->for_each_member([&](const JsonField&) { any = true; });
    if (any) dynamic->fail("settings of single modules", "none: one setting for all of them");
  }
}

void read_awq(const JsonField& fields, Quantisation& quantisation) {
  quantisation.bits = read_bits(fields, {"bits", "w_bit"}, {4}, 4);
  quantisation.group_size = read_group_size(fields, {"group_size", "q_group_size"}, 128);
  quantisation.plain_modules = read_texts(fields, {"modules_to_not_convert"});
  const auto version = any_of_names(fields, {"version", "format"});
  if (version && lower(version->string()) != "gemm") version->fail(shown(version->string()), "\"gemm\"");
  if (!fields.boolean_or("zero_point", true)) fields.member("zero_point").fail("false", "true");
}

void read_bitsandbytes(const JsonField& fields, Quantisation& quantisation) {
  quantisation.plain_modules = read_texts(fields, {"llm_int8_skip_modules"});
  const bool four = fields.boolean_or("load_in_4bit", false),
             eight = fields.boolean_or("load_in_8bit", false);
  if (four == eight)
    fields.fail(four ? "both load_in_4bit and load_in_8bit" : "neither load_in_4bit nor load_in_8bit",
                "one of the two to be true");
  quantisation.bits = four ? 4 : 8;
  quantisation.code = four ? fields.string_or("bnb_4bit_quant_type", "fp4") : "int8";
  if (four && quantisation.code != "nf4" && quantisation.code != "fp4")
    fields.member("bnb_4bit_quant_type").fail(shown(quantisation.code), "\"nf4\" or \"fp4\"");
}

// --- compressed-tensors ---

// What a format's weights are made of.
struct PackedFormat {
  std::string_view name;
  bool is_float;
  std::vector<int> bits;
  std::vector<Strategy> strategies;
  std::int64_t group_size;  // 0: any
};

const std::vector<PackedFormat>& packed_formats() {
  using enum Strategy;
  static const std::vector<PackedFormat> formats{
      {"pack-quantized", false, {2, 4, 8}, {kTensor, kChannel, kGroup}, 0},
      {"int-quantized", false, {8}, {kTensor, kChannel, kGroup, kBlock}, 0},
      {"float-quantized", true, {8}, {kTensor, kChannel, kGroup, kBlock}, 0},
      {"naive-quantized", false, {8}, {kTensor, kChannel, kGroup, kBlock}, 0},
      {"naive-quantized", true, {8}, {kTensor, kChannel, kGroup, kBlock}, 0},
      {"nvfp4-pack-quantized", true, {4}, {kGroup}, 16},
      {"mxfp4-pack-quantized", true, {4}, {kGroup}, 32},
      {"mxfp8-quantized", true, {8}, {kGroup}, 32},
  };
  return formats;
}

Strategy read_strategy(const JsonField& weights, std::int64_t group_size, bool has_group_size) {
  const std::string usual = !has_group_size ? "tensor" : group_size > 0 ? "group" : "channel";
  const std::string name = lower(weights.string_or("strategy", usual));
  if (name == "tensor") return Strategy::kTensor;
  if (name == "channel") return Strategy::kChannel;
  if (name == "group" || name == "tensor_group") return Strategy::kGroup;
  if (name == "block") return Strategy::kBlock;
  weights.member("strategy").fail(shown(name), "tensor, channel, group, tensor_group or block");
}

void check_format(const JsonField& weights, const PackingScheme& scheme) {
  std::vector<std::string_view> known;
  bool named = false;
  for (const PackedFormat& format : packed_formats()) {
    if (std::ranges::find(known, format.name) == known.end()) known.push_back(format.name);
    if (format.name != scheme.format) continue;
    named = true;
    if (format.is_float == scheme.is_float &&
        std::ranges::find(format.bits, scheme.bits) != format.bits.end() &&
        std::ranges::find(format.strategies, scheme.strategy) != format.strategies.end() &&
        (format.group_size == 0 || format.group_size == scheme.group_size))
      return;
  }
  if (!named)
    weights.fail(fmt::format("the format {}", shown(scheme.format)),
                 fmt::format("one of {}", fmt::join(known, ", ")));
  weights.fail(fmt::format("{} bits of {}, by {}", scheme.bits, scheme.is_float ? "floats" : "integers",
                           weights.string_or("strategy", "default")),
               fmt::format("what {} supports", scheme.format));
}

PackingScheme read_scheme(const JsonField& group, const JsonField& weights, const std::string& format) {
  PackingScheme scheme;
  scheme.group = group.path();
  scheme.targets = read_texts(group, {"targets"});
  scheme.format = group.string_or("format", format);
  scheme.bits = read_bits(weights, {"num_bits"}, {2, 4, 8}, 8);
  const std::string type = lower(weights.string_or("type", "int"));
  if (type != "int" && type != "float") weights.member("type").fail(shown(type), "\"int\" or \"float\"");
  scheme.is_float = type == "float";
  scheme.symmetric = weights.boolean_or("symmetric", true);
  scheme.group_size = read_group_size(weights, {"group_size"}, 0);
  scheme.strategy = read_strategy(weights, scheme.group_size, weights.optional("group_size").has_value());
  if (scheme.strategy == Strategy::kGroup && scheme.group_size == 0)
    weights.fail("no group_size", "one, as the strategy is by groups");
  if (scheme.strategy != Strategy::kGroup) scheme.group_size = 0;
  if (scheme.strategy == Strategy::kBlock)
    std::tie(scheme.block_rows, scheme.block_columns) = read_block(weights.member("block_structure"));
  if (scheme.is_float && !scheme.symmetric) weights.fail("floats with zero points", "symmetric ones");
  check_format(weights, scheme);
  return scheme;
}

// What changes the weights beyond a packing: sparsity and rotations.
void refuse_further_steps(const JsonField& fields) {
  const auto sparsity = any_of_names(fields, {"sparsity_config"});
  if (sparsity && sparsity->is_object()) {
    const std::string format = sparsity->string_or("format", "dense");
    if (format != "dense") sparsity->fail(shown(format), "\"dense\": weights without sparsity");
  }
  if (const auto transforms = fields.optional("transform_config"); transforms && transforms->is_object())
    if (const auto groups = transforms->optional("config_groups"); groups && groups->is_object())
      groups->for_each_member([](const JsonField& each) { each.fail("a rotation", "none"); });
}

void read_compressed(const JsonField& fields, Quantisation& quantisation) {
  refuse_further_steps(fields);
  quantisation.plain_modules = read_texts(fields, {"ignore"});
  const std::string format = fields.string_or("format", "dense");
  fields.member("config_groups").for_each_member([&](const JsonField& group) {
    if (!group.is_object()) group.fail_type("an object with targets and weights");
    // Without them only activations are quantised, which stay as they are.
    if (const auto weights = group.optional("weights"))
      quantisation.schemes.push_back(read_scheme(group, *weights, format));
  });
  if (quantisation.schemes.empty())
    fields.member("config_groups").fail("no group with weights", "at least one");
  quantisation.bits = quantisation.schemes.front().bits;
}

// --- methods ---

struct MethodReader {
  std::string_view name;
  QuantMethod method;
  void (*read)(const JsonField& fields, Quantisation& quantisation);
};

constexpr std::array kReaders{
    MethodReader{"mxfp4", QuantMethod::kMxfp4, read_mxfp4},
    MethodReader{"fp8", QuantMethod::kFp8, read_fp8},
    MethodReader{"compressed-tensors", QuantMethod::kCompressedTensors, read_compressed},
    MethodReader{"gptq", QuantMethod::kGptq, read_gptq},
    MethodReader{"awq", QuantMethod::kAwq, read_awq},
    MethodReader{"bitsandbytes", QuantMethod::kBitsAndBytes, read_bitsandbytes},
};

// Files that were written before `quant_method` was are told by what only one method has.
std::string method_name(const JsonField& fields, const std::string& usual) {
  std::string name = lower(fields.string_or("quant_method", ""));
  if (name.starts_with("bitsandbytes")) return "bitsandbytes";  // also bitsandbytes_4bit, bitsandbytes_8bit
  std::ranges::replace(name, '_', '-');
  if (!name.empty()) return name;
  if (fields.boolean_or("load_in_4bit", false) || fields.boolean_or("load_in_8bit", false))
    return "bitsandbytes";
  return usual;
}

Quantisation read_method(const JsonField& fields, const std::string& usual) {
  if (!fields.is_object()) fields.fail_type("an object");
  const std::string name = method_name(fields, usual);
  for (const MethodReader& reader : kReaders) {
    if (reader.name != name) continue;
    Quantisation quantisation;
    quantisation.method = reader.method;
    quantisation.where = fields.file();
    reader.read(fields, quantisation);
    return quantisation;
  }
  std::vector<std::string_view> known;
  for (const MethodReader& reader : kReaders) known.push_back(reader.name);
  const std::string found = fields.string_or("quant_method", name);
  fields.fail(found.empty() ? "no quant_method" : fmt::format("the quant_method {}", shown(found)),
              fmt::format("one of {}: others are not unpacked; save the model unpacked (in Transformers by "
                          "dequantize() and save_pretrained()) and give that folder",
                          fmt::join(known, ", ")));
}

std::string groups_text(std::int64_t group_size) {
  return group_size > 0 ? fmt::format("groups of {}", group_size) : "one group";
}

std::string scheme_text(const PackingScheme& scheme) {
  const std::string text = fmt::format("{}, {} bits", scheme.format, scheme.bits);
  switch (scheme.strategy) {
    case Strategy::kTensor:
      return text + ", one scale";
    case Strategy::kChannel:
      return text + ", a scale per row";
    case Strategy::kGroup:
      return text + fmt::format(", groups of {}", scheme.group_size);
    case Strategy::kBlock:
      break;
  }
  return text + fmt::format(", blocks of {} x {}", scheme.block_rows, scheme.block_columns);
}

}  // namespace

std::string Quantisation::description() const {
  switch (method) {
    case QuantMethod::kNone:
      return {};
    case QuantMethod::kMxfp4:
      return "mxfp4, 4 bits, groups of 32";
    case QuantMethod::kFp8:
      if (blocks_by_default) return "fp8, 8 bits";
      if (block_rows == 0) return "fp8, 8 bits, a scale per row or tensor";
      return fmt::format("fp8, 8 bits, blocks of {} x {}", block_rows, block_columns);
    case QuantMethod::kGptq:
      return fmt::format("gptq, {} bits, {}{}", bits, groups_text(group_size), desc_act ? ", desc_act" : "");
    case QuantMethod::kAwq:
      return fmt::format("awq, {} bits, {}", bits, groups_text(group_size));
    case QuantMethod::kBitsAndBytes:
      return fmt::format("bitsandbytes, {}", code);
    case QuantMethod::kCompressedTensors:
      break;
  }
  std::string text = "compressed-tensors";
  std::vector<std::string> said;
  for (const PackingScheme& scheme : schemes) {
    if (std::ranges::find(said, scheme_text(scheme)) != said.end()) continue;
    said.push_back(scheme_text(scheme));
    text += (said.size() == 1 ? ", " : "; ") + said.back();
  }
  return text;
}

Quantisation read_quantisation(const nlohmann::json& config, const std::string& where) {
  const JsonField fields(config, where, "");
  if (const auto named = fields.optional("quantization_config")) return read_method(*named, "");
  const auto older = fields.optional("compression_config");
  if (!older) return {};
  if (older->is_object())
    if (const auto inner = older->optional("quantization_config"))
      return read_method(*inner, "compressed-tensors");
  return read_method(*older, "compressed-tensors");
}

Quantisation read_separate_quantisation(const std::filesystem::path& folder) {
  for (const auto& [name, method] :
       {std::pair{"quantize_config.json", "gptq"}, std::pair{"quant_config.json", "awq"}}) {
    const std::filesystem::path path = folder / name;
    std::error_code unused;
    if (!std::filesystem::exists(path, unused)) continue;
    const nlohmann::json json = parse_json_object(read_small_file(path), path.string());
    return read_method({json, path.string(), ""}, method);
  }
  return {};
}

}  // namespace keyscope::capture
