#include "capture/model/packed_weight.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/regex.hpp"
#include "base/text.hpp"

namespace keyscope::capture {

void WeightPart::fail(const std::string& what) const {
  throw FileError(fmt::format("{}: tensor {} {}", tensor->file, shown(name), what));
}

void WeightPart::expect_dtype(std::initializer_list<std::string_view> dtypes) const {
  if (std::ranges::find(dtypes, dtype()) == dtypes.end())
    fail(fmt::format("is {}, expected {}", dtype(), fmt::join(dtypes, " or ")));
}

void WeightPart::expect_dimensions(std::size_t n) const {
  if (shape().size() != n || std::ranges::find(shape(), 0) != shape().end())
    fail(fmt::format("is [{}], expected {} dimensions, none of them 0", shown_list(shape()), n));
}

void WeightPart::expect_shape(const Shape& expected, std::string_view why) const {
  if (shape() != expected)
    fail(fmt::format("is [{}], expected [{}] {}", shown_list(shape()), shown_list(expected), why));
}

void WeightPart::read_scales(std::int64_t first, std::int64_t n, float* out) const {
  const auto by_table = [&](std::span<const float> table) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = table[std::to_integer<std::size_t>(data()[first + i])];
  };
  if (dtype() == "U8" || dtype() == "F8_E8M0")
    by_table(power_values());
  else if (dtype().starts_with("F8_"))
    by_table(float8_values(dtype()));
  else
    widen(*tensor, first, n, out);
  for (std::int64_t i = 0; i < n; ++i)
    if (!std::isfinite(out[i]))
      fail(fmt::format("holds {} at {}, expected a finite scale", out[i], first + i));
}

std::span<const float> float8_values(std::string_view dtype) {
  using Table = std::array<float, 256>;
  // Exponents all ones are numbers too; only the largest mantissa is NaN.
  static const Table e4m3 = [] {
    Table values{};
    for (int byte = 0; byte < 256; ++byte) {
      const int exponent = (byte >> 3) & 15, mantissa = byte & 7;
      const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
      values[byte] = (byte & 127) == 127 ? std::numeric_limits<float>::quiet_NaN() : size;
      if (byte >= 128) values[byte] = -values[byte];
    }
    return values;
  }();
  // The upper half of a float16.
  static const Table e5m2 = [] {
    Table values{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const auto bits = static_cast<std::uint16_t>(byte << 8);
      _Float16 value{};
      std::memcpy(&value, &bits, sizeof value);
      values[byte] = static_cast<float>(value);
    }
    return values;
  }();
  return dtype == "F8_E5M2" ? e5m2 : e4m3;
}

std::span<const float> power_values() {
  static const auto values = [] {
    std::array<float, 256> powers{};
    for (int byte = 0; byte < 255; ++byte) powers[byte] = std::ldexp(1.0F, byte - 127);
    powers[255] = std::numeric_limits<float>::quiet_NaN();
    return powers;
  }();
  return values;
}

std::span<const float> float4_pairs() {
  static const auto values = [] {
    constexpr std::array kValues{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                 -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
    std::array<float, 512> pairs{};
    for (int byte = 0; byte < 256; ++byte) {
      pairs[2 * byte] = kValues[byte & 15];
      pairs[2 * byte + 1] = kValues[byte >> 4];
    }
    return pairs;
  }();
  return values;
}

std::optional<WeightPart> WeightParts::find(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  used_.insert(name);
  return WeightPart{name, found->second};
}

WeightPart WeightParts::need(const std::string& name, const WeightPart& of) {
  auto part = find(name);
  if (!part) of.fail(fmt::format("is packed, and {}, which it needs, is missing", shown(name)));
  return *std::move(part);
}

namespace {

constexpr std::string_view kExpression = "re:";

// An expression of a configuration, matched from a name's beginning as Python's `re.match` does.
class ModuleExpression {
 public:
  //   where: the configuration, for messages
  ModuleExpression(const std::string& text, const std::string& where)
      : text_(text), where_(where), regex_(compiled()) {}

  bool matches(const std::string& module) const {
    bool matched = false;
    try {
      regex_.for_each_match(module, [&](std::span<const Regex::Range>) { matched = true; });
    } catch (const InvalidInput& error) {
      refuse(error);
    }
    return matched;
  }

 private:
  Regex compiled() const {
    try {
      return Regex("\\A(?:" + text_ + ")", Regex::Syntax::kPython);
    } catch (const InvalidInput& error) {
      refuse(error);
    }
  }

  [[noreturn]] void refuse(const InvalidInput& error) const {
    throw FileError(
        fmt::format("{}: the expression {} for names of modules: {}", where_, shown(text_), error.what()));
  }

  std::string text_, where_;
  Regex regex_;
};

// Of most entries only the points can stand for something else.
bool has_points_alone(const std::string& entry) {
  return std::ranges::all_of(entry, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

// Whether such an entry is what a name begins with, up to where a part of the name ends.
bool begins_with(const std::string& module, const std::string& entry) {
  if (module.size() < entry.size()) return false;
  const bool alike = std::equal(entry.begin(), entry.end(), module.begin(),
                                [](char expected, char c) { return expected == '.' || expected == c; });
  return alike && (entry.empty() || entry.size() == module.size() || module[entry.size()] == '.' ||
                   module[entry.size() - 1] == '.');
}

// The modules that a configuration says to be stored as they are: by name or expression under
// compressed-tensors; else each entry is an expression that ends where a part of the name does, or the end of
// a name, as Transformers has it. Some configurations have hundreds of them, and some models tens of
// thousands of modules.
class PlainModules {
 public:
  explicit PlainModules(const Quantisation& quantisation)
      : whole_names_(quantisation.method == QuantMethod::kCompressedTensors) {
    for (const std::string& entry : quantisation.plain_modules) {
      if (whole_names_ && entry.starts_with(kExpression))
        expressions_.emplace_back(entry.substr(kExpression.size()), quantisation.where);
      else
        names_.push_back(entry);
      if (!whole_names_ && !has_points_alone(entry))
        expressions_.emplace_back("(?:" + entry + ")(?:(?<=\\.)|(?=\\.|$))", quantisation.where);
    }
  }

  bool contain(const std::string& module) const {
    return std::ranges::any_of(names_,
                               [&](const std::string& name) {
                                 if (whole_names_) return name == module;
                                 return module.ends_with(name) || begins_with(module, name);
                               }) ||
           std::ranges::any_of(expressions_,
                               [&](const ModuleExpression& each) { return each.matches(module); });
  }

 private:
  bool whole_names_;
  std::vector<std::string> names_;
  std::vector<ModuleExpression> expressions_;
};

// By which tensors a method's packed weights are found, and what follows the module's name in the weight's.
struct LeadingPart {
  QuantMethod method;
  std::string_view suffix;
  std::vector<std::string_view> dtypes;  // none: any
  std::string_view weight;
  WeightMaker make;
};

const std::vector<LeadingPart>& leading_parts() {
  using enum QuantMethod;
  static const std::vector<LeadingPart> parts{
      {kMxfp4, "_blocks", {}, "", make_mxfp4_experts},
      {kFp8, ".weight", {"F8_E4M3", "F8_E5M2"}, ".weight", make_fp8},
      {kCompressedTensors, ".weight_packed", {}, ".weight", make_compressed},
      {kCompressedTensors, ".weight", {"F8_E4M3", "F8_E5M2", "I8"}, ".weight", make_compressed},
      {kGptq, ".qweight", {}, ".weight", make_gptq},
      {kAwq, ".qweight", {}, ".weight", make_awq},
      {kBitsAndBytes, ".weight.quant_state.bitsandbytes__nf4", {}, ".weight", make_codes4},
      {kBitsAndBytes, ".weight.quant_state.bitsandbytes__fp4", {}, ".weight", make_codes4},
      {kBitsAndBytes, ".weight", {"I8"}, ".weight", make_int8},
  };
  return parts;
}

// What belongs to a packed weight and is nothing without it.
const std::vector<std::pair<QuantMethod, std::string_view>>& following_parts() {
  using enum QuantMethod;
  static const std::vector<std::pair<QuantMethod, std::string_view>> parts{
      {kMxfp4, "_scales"},
      {kFp8, ".weight_scale_inv"},
      {kFp8, ".weight_scale"},
      {kCompressedTensors, ".weight_scale"},
      {kCompressedTensors, ".weight_zero_point"},
      {kCompressedTensors, ".weight_shape"},
      {kCompressedTensors, ".weight_g_idx"},
      {kCompressedTensors, ".weight_global_scale"},
      {kGptq, ".qzeros"},
      {kGptq, ".scales"},
      {kGptq, ".g_idx"},
      {kAwq, ".qzeros"},
      {kAwq, ".scales"},
      {kBitsAndBytes, ".SCB"},
      {kBitsAndBytes, ".weight.absmax"},
      {kBitsAndBytes, ".weight.quant_map"},
      {kBitsAndBytes, ".weight.nested_absmax"},
      {kBitsAndBytes, ".weight.nested_quant_map"},
  };
  return parts;
}

// Of activations and of a quantised cache, which stay in full floats here; and marks of a layout.
bool is_of_activations(std::string_view name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{".input_scale", ".input_zero_point", ".input_global_scale",
                                              ".input_scale_ub", ".output_scale", ".output_zero_point",
                                              ".activation_scale", ".activation_scale_inv", ".q_scale",
                                              ".k_scale", ".v_scale", ".k_zero_point", ".v_zero_point",
                                              ".k_global_scale", ".v_global_scale", ".weight_format"},
      [&](std::string_view suffix) { return name.ends_with(suffix); });
}

void refuse_lone_parts(const RawTensors& tensors, const WeightParts& parts, QuantMethod method) {
  for (const auto& [name, tensor] : tensors) {
    if (parts.is_used(name)) continue;
    for (const auto& [of_method, suffix] : following_parts())
      if (of_method == method && name.ends_with(suffix))
        WeightPart{name, tensor}.fail("is a part of a packed weight, whose packed values are missing");
  }
}

}  // namespace

const PackingScheme* scheme_of(const Quantisation& quantisation, const std::string& module) {
  const bool embeds = module.ends_with("embed_tokens") || module.ends_with("embeddings");
  const std::string_view of_class = embeds ? "Embedding" : "Linear";
  const PackingScheme *by_expression = nullptr, *by_class = nullptr;
  for (const PackingScheme& scheme : quantisation.schemes)
    for (const std::string& target : scheme.targets) {
      if (target == module) return &scheme;
      if (by_class == nullptr && target == of_class) by_class = &scheme;
      if (by_expression == nullptr && target.starts_with(kExpression) &&
          ModuleExpression(target.substr(kExpression.size()), quantisation.where).matches(module))
        by_expression = &scheme;
    }
  return by_expression != nullptr ? by_expression : by_class;
}

WeightTable weights_of(const RawTensors& tensors, const Quantisation& quantisation) {
  WeightTable weights;
  WeightParts parts(tensors);
  const PlainModules plain(quantisation);
  for (const auto& [name, tensor] : tensors) {
    for (const LeadingPart& leading : leading_parts()) {
      if (leading.method != quantisation.method || !name.ends_with(leading.suffix)) continue;
      if (!leading.dtypes.empty() && std::ranges::find(leading.dtypes, tensor->dtype) == leading.dtypes.end())
        continue;
      const std::string stem = name.substr(0, name.size() - leading.suffix.size());
      const std::string weight = stem + std::string(leading.weight);
      const WeightPart part = *parts.find(name);
      if (plain.contain(weight.substr(0, weight.rfind('.'))))
        part.fail(fmt::format("is packed, and {} says that its module is not", quantisation.where));
      if (!weights.emplace(weight, leading.make(stem, part, parts, quantisation)).second)
        part.fail(fmt::format("is one of two packings of {}", shown(weight)));
    }
    if (quantisation.method != QuantMethod::kNone && is_of_activations(name)) parts.drop(name);
  }
  refuse_lone_parts(tensors, parts, quantisation.method);
  for (const auto& [name, tensor] : tensors) {
    if (parts.is_used(name)) continue;
    if (weights.contains(name))
      WeightPart{name, tensor}.fail("is there as it is and packed as well, expected one of the two");
    weights.emplace(name, plain_weight(*tensor));
  }
  return weights;
}

}  // namespace keyscope::capture
