#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::capture {

// How a checkpoint packs its weights, as `quantization_config` in its config.json says.
enum class QuantMethod {
  kNone,
  kMxfp4,              // gpt-oss: 4-bit floats, a power of two per 32 of them
  kFp8,                // 8-bit floats, a scale per block, row or tensor
  kCompressedTensors,  // several formats, a scheme per group of modules
  kGptq,               // integers packed along the input, with groups of inputs
  kAwq,                // integers packed along the output, in an order of their own
  kBitsAndBytes,       // 4-bit codes into a table in the file, or 8-bit integers with a scale per row
};

// How compressed-tensors stores a group of modules.
struct PackingScheme {
  enum class Strategy { kTensor, kChannel, kGroup, kBlock };

  std::string group;                 // its name, for messages
  std::vector<std::string> targets;  // names of modules, "re:" and an expression, or names of classes
  std::string format;                // "pack-quantized", "float-quantized", …
  int bits = 8;
  bool is_float = false;
  bool symmetric = true;
  Strategy strategy = Strategy::kTensor;
  std::int64_t group_size = 0;                     // columns, under kGroup
  std::int64_t block_rows = 0, block_columns = 0;  // under kBlock
  bool operator==(const PackingScheme&) const = default;
};

struct Quantisation {
  QuantMethod method = QuantMethod::kNone;
  std::string where;  // the file that says so, for messages
  int bits = 0;
  std::int64_t group_size = 0;                     // GPTQ, AWQ: inputs that share a scale; 0: all of them
  bool zeros_minus_one = false;                    // GPTQ: zero points are stored one less, modulo 2^bits
  bool desc_act = false;                           // GPTQ: groups are of inputs in another order
  std::int64_t block_rows = 0, block_columns = 0;  // FP8; 0: a scale per row or per tensor
  bool blocks_by_default = false;  // FP8: nothing is said of them, and tensors may have others
  std::string code;                // bitsandbytes: "nf4", "fp4" or "int8"
  // Modules that are stored as they are: each an expression and the end of a name, or as compressed-tensors
  // has them.
  std::vector<std::string> plain_modules;
  std::vector<PackingScheme> schemes;  // compressed-tensors

  // As recordings and `inspect` say it: "gptq, 4 bits, groups of 128". Empty where there is none.
  std::string description() const;
  bool operator==(const Quantisation&) const = default;
};

// What a config.json says in `quantization_config`, or in `compression_config` as older ones have it.
//   config: the whole file; where: what messages name
//   throws FileError naming the field, what was found and what was expected; methods and formats that are not
//   supported are refused by name
Quantisation read_quantisation(const nlohmann::json& config, const std::string& where);

// The same of a folder whose config.json says nothing: from `quantize_config.json`, as GPTQ's tools write it,
// or `quant_config.json`, as AWQ's do.
Quantisation read_separate_quantisation(const std::filesystem::path& folder);

}  // namespace keyscope::capture
