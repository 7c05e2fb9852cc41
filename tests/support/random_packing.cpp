#include "tests/support/random_packing.hpp"

#include <cstring>
#include <stdexcept>

#include "base/json.hpp"

namespace keyscope::test {

namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kGroup = 32;

// splitmix64 (Steele, Lea, Flood 2014)
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::int64_t product(const Sizes& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

TensorBytes words(const Sizes& shape, std::uint64_t& state) {
  TensorBytes tensor{"I32", shape, std::string(static_cast<std::size_t>(4 * product(shape)), '\0')};
  for (char& byte : tensor.bytes) byte = static_cast<char>(next(state) >> 56);
  return tensor;
}

TensorBytes bytes(const Sizes& shape, std::uint64_t& state, const char* dtype = "U8") {
  TensorBytes tensor{dtype, shape, std::string(static_cast<std::size_t>(product(shape)), '\0')};
  for (char& byte : tensor.bytes) byte = static_cast<char>(next(state) >> 56);
  return tensor;
}

// 8-bit floats, none of them NaN.
TensorBytes float8(const Sizes& shape, std::uint64_t& state) {
  TensorBytes tensor = bytes(shape, state, "F8_E4M3");
  for (char& byte : tensor.bytes)
    if ((byte & 127) == 127) byte = 0;
  return tensor;
}

// From 0.5 to 1.5 times `size`.
TensorBytes scales(const Sizes& shape, float size, std::uint64_t& state) {
  TensorBytes tensor{"F32", shape, std::string(static_cast<std::size_t>(4 * product(shape)), '\0')};
  for (std::size_t i = 0; i < tensor.bytes.size(); i += 4) {
    const float value = size * (0.5F + static_cast<float>(next(state) >> 40) / 16777216.0F);
    std::memcpy(tensor.bytes.data() + i, &value, sizeof value);
  }
  return tensor;
}

TensorBytes powers(const Sizes& shape, int least, std::uint64_t& state) {
  TensorBytes tensor = bytes(shape, state);
  for (char& byte : tensor.bytes) byte = static_cast<char>(least + (byte & 3));
  return tensor;
}

template <typename T>
TensorBytes numbers(const char* dtype, const std::vector<T>& values) {
  TensorBytes tensor{
      dtype, {static_cast<std::int64_t>(values.size())}, std::string(values.size() * sizeof(T), '\0')};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// Every group as often as another, in an order of no meaning.
TensorBytes random_order(std::int64_t columns, std::uint64_t& state) {
  std::vector<std::int32_t> groups(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<std::int32_t>(i / kGroup);
  for (std::size_t i = groups.size() - 1; i > 0; --i) std::swap(groups[i], groups[next(state) % (i + 1)]);
  return numbers("I32", groups);
}

void add_fp8(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
             std::uint64_t& state) {
  tensors[module + ".weight"] = float8({rows, columns}, state);
  tensors[module + ".weight_scale_inv"] = scales({(rows + 47) / 48, (columns + 39) / 40}, 0.002F, state);
}

void add_integers(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
                  std::uint64_t& state) {
  tensors[module + ".weight_packed"] = words({rows, columns / 8}, state);
  tensors[module + ".weight_scale"] = scales({rows, columns / kGroup}, 0.03F, state);
  tensors[module + ".weight_zero_point"] = words({rows / 8, columns / kGroup}, state);
  tensors[module + ".weight_shape"] = numbers<std::int64_t>("I64", {rows, columns});
  tensors[module + ".input_scale"] = scales({1}, 1, state);
}

void add_float4(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
                std::uint64_t& state) {
  tensors[module + ".weight_packed"] = bytes({rows, columns / 2}, state);
  tensors[module + ".weight_scale"] = powers({rows, columns / 32}, 121, state);
}

void add_gptq(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
              std::uint64_t& state) {
  tensors[module + ".qweight"] = words({columns / 8, rows}, state);
  tensors[module + ".qzeros"] = words({columns / kGroup, rows / 8}, state);
  tensors[module + ".scales"] = scales({columns / kGroup, rows}, 0.03F, state);
  tensors[module + ".g_idx"] = random_order(columns, state);
  tensors[module + ".bias"] = {"F32", {rows}, std::string(static_cast<std::size_t>(4 * rows), '\0')};
}

void add_awq(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
             std::uint64_t& state) {
  tensors[module + ".qweight"] = words({columns, rows / 8}, state);
  tensors[module + ".qzeros"] = words({columns / kGroup, rows / 8}, state);
  tensors[module + ".scales"] = scales({columns / kGroup, rows}, 0.03F, state);
}

void add_codes(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
               std::uint64_t& state) {
  const std::int64_t n = rows * columns, n_blocks = n / 64, n_nested = (n_blocks + 255) / 256;
  const std::string weight = module + ".weight";
  const std::string said = json_text(Json{{"quant_type", "nf4"},
                                          {"blocksize", 64},
                                          {"dtype", "float32"},
                                          {"shape", {rows, columns}},
                                          {"nested_blocksize", 256},
                                          {"nested_dtype", "float32"},
                                          {"nested_offset", 0.11}});
  tensors[weight] = bytes({n / 2, 1}, state);
  tensors[weight + ".absmax"] = bytes({n_blocks}, state);
  tensors[weight + ".quant_map"] = scales({16}, 1, state);
  tensors[weight + ".nested_absmax"] = scales({n_nested}, 0.05F, state);
  tensors[weight + ".nested_quant_map"] = scales({256}, 0.5F, state);
  tensors[weight + ".quant_state.bitsandbytes__nf4"] = {"U8", {static_cast<std::int64_t>(said.size())}, said};
}

void add_int8(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
              std::uint64_t& state) {
  tensors[module + ".weight"] = bytes({rows, columns}, state, "I8");
  tensors[module + ".SCB"] = scales({rows}, 0.2F, state);
  tensors[module + ".weight_format"] = {"U8", {}, std::string(1, '\0')};
}

Json compressed(const char* format, const Json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head", "re:.*router$"}},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

}  // namespace

const std::vector<RandomPacking>& random_packings() {
  static const std::vector<RandomPacking> packings{
      {"fp8", {{"quant_method", "fp8"}, {"weight_block_size", {48, 40}}}, "F8_E4M3", add_fp8},
      {"integers",
       compressed("pack-quantized", {{"num_bits", 4},
                                     {"type", "int"},
                                     {"strategy", "group"},
                                     {"group_size", 32},
                                     {"symmetric", false}}),
       "INT4", add_integers},
      {"float4",
       compressed("mxfp4-pack-quantized",
                  {{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}}),
       "MXFP4", add_float4},
      {"gptq",
       {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"desc_act", true}},
       "GPTQ4",
       add_gptq},
      {"awq",
       {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"version", "GEMM"}},
       "AWQ4",
       add_awq},
      {"nf4",
       {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}},
       "NF4",
       add_codes},
      {"int8", {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}, "INT8", add_int8},
  };
  return packings;
}

const RandomPacking& random_packing(const std::string& name) {
  for (const RandomPacking& packing : random_packings())
    if (packing.name == name) return packing;
  throw std::runtime_error("no packing " + name);
}

std::vector<std::string> projections(const RandomModel& model) {
  std::vector<std::string> modules;
  for (const auto& [name, tensor] : model.tensors)
    if (name.ends_with("_proj.weight") || name.find(".experts.") != name.npos)
      modules.push_back(name.substr(0, name.size() - 7));
  return modules;
}

void pack_projections(RandomModel& model, const RandomPacking& packing) {
  std::uint64_t state = 1;
  for (const std::string& module : projections(model)) {
    const std::vector<std::int64_t> shape = model.tensors.at(module + ".weight").shape;
    model.tensors.erase(module + ".weight");
    packing.add(model.tensors, module, shape[0], shape[1], state);
  }
  model.config["quantization_config"] = packing.config;
}

}  // namespace keyscope::test
