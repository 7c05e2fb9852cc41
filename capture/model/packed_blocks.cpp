// Weights that are packed in blocks of 4-bit codes into a table: gpt-oss' experts, and those of bitsandbytes.
//
// Sources: OCP Microscaling Formats (MX) 1.0, and for the experts' layout gpt-oss' model card (arXiv
// 2508.10925) and Transformers' integrations/mxfp4.py; QLoRA (arXiv 2305.14314) for NF4 and scales that are
// quantised themselves, in the layout that bitsandbytes saves.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "capture/model/packed_weight.hpp"

namespace keyscope::capture {

namespace {

constexpr std::int64_t kBlockBytes = 16, kBlockValues = 32;

// Experts' matrices (E, inputs, outputs), which are packed by output: blocks of 32 inputs, two floats a byte,
// and the exponent of a power of two for each.
class ExpertsWeight : public PackedWeight {
 public:
  ExpertsWeight(const std::string& name, const WeightPart& codes, const WeightPart& scales)
      : PackedWeight(name, "MXFP4", {codes.size(0), codes.size(2) * kBlockValues, codes.size(1)}, codes),
        scales_(scales) {}

  std::vector<std::span<const std::byte>> bytes(std::int64_t first, std::int64_t n) const override {
    return {experts(codes(), first, n), experts(scales_, first, n)};
  }

  void unpack(std::int64_t first, std::int64_t n, float* out) const override {
    for (std::int64_t expert = first; expert < first + n; ++expert, out += n_inputs() * n_outputs())
      for (std::int64_t o = 0; o < n_outputs(); o += kTile) unpack_outputs(expert, o, out);
  }

 private:
  static constexpr std::int64_t kTile = 32;  // outputs that are turned at once

  std::int64_t n_inputs() const { return shape()[1]; }
  std::int64_t n_outputs() const { return shape()[2]; }
  std::int64_t n_blocks() const { return scales_.size(2); }

  static std::span<const std::byte> experts(const WeightPart& part, std::int64_t first, std::int64_t n) {
    const std::size_t each = part.data().size() / static_cast<std::size_t>(part.size(0));
    return part.data().subspan(each * static_cast<std::size_t>(first), each * static_cast<std::size_t>(n));
  }

  void unpack_outputs(std::int64_t expert, std::int64_t o, float* out) const {
    const std::int64_t n = std::min(kTile, n_outputs() - o);
    std::array<float, kTile * kBlockValues> tile;
    for (std::int64_t block = 0; block < n_blocks(); ++block) {
      for (std::int64_t each = 0; each < n; ++each)
        unpack_block((expert * n_outputs() + o + each) * n_blocks() + block,
                     tile.data() + each * kBlockValues);
      float* target = out + block * kBlockValues * n_outputs() + o;
      for (std::int64_t i = 0; i < kBlockValues; ++i, target += n_outputs())
        for (std::int64_t each = 0; each < n; ++each)
          target[each] = tile[static_cast<std::size_t>(each * kBlockValues + i)];
    }
  }

  void unpack_block(std::int64_t block, float* out) const {
    const float scale =
        power_values()[std::to_integer<std::size_t>(scales_.data()[static_cast<std::size_t>(block)])];
    if (std::isnan(scale)) scales_.fail(fmt::format("holds 255, which is NaN, at {}", block));
    const std::byte* bytes = codes().data().data() + block * kBlockBytes;
    const float* pairs = float4_pairs().data();
    for (std::int64_t i = 0; i < kBlockBytes; ++i)
      std::memcpy(out + 2 * i, pairs + 2 * std::to_integer<int>(bytes[i]), 2 * sizeof(float));
    for (std::int64_t i = 0; i < kBlockValues; ++i) out[i] *= scale;
  }

  WeightPart scales_;
};

// Scales of blocks of elements, counted through the whole matrix: floats, or codes into a table with scales
// of their own and an offset.
struct BlockScales {
  std::int64_t block_size = 64;  // elements
  WeightPart absmax;
  std::optional<WeightPart> nested_absmax, nested_map;
  std::int64_t nested_block_size = 256;  // scales
  float nested_offset = 0;

  // In float32, in this order: code · scale + offset.
  float at(std::int64_t block) const {
    float value = 0;
    if (!nested_absmax) {
      absmax.read_scales(block, 1, &value);
      return value;
    }
    float scale = 0;
    nested_map->read_scales(std::to_integer<std::int64_t>(absmax.data()[static_cast<std::size_t>(block)]), 1,
                            &value);
    nested_absmax->read_scales(block / nested_block_size, 1, &scale);
    const volatile float product = value * scale;  // rounded before the sum, however this is compiled
    return product + nested_offset;
  }
};

// 4-bit codes into a table of 16 floats, the high nibble first, times the scale of their block.
class CodesWeight : public PackedWeight {
 public:
  CodesWeight(const std::string& name, const std::string& form, const Shape& shape, const WeightPart& codes,
              const WeightPart& map, BlockScales scales)
      : PackedWeight(name, form, shape, codes), map_(map), scales_(std::move(scales)) {}

  std::vector<std::span<const std::byte>> bytes(std::int64_t first, std::int64_t n) const override {
    const std::int64_t begin = first * entry_elements() / 2, end = ((first + n) * entry_elements() + 1) / 2;
    std::vector<std::span<const std::byte>> spans{
        codes().data().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
        scales_.absmax.data()};
    if (scales_.nested_absmax) spans.push_back(scales_.nested_absmax->data());
    return spans;
  }

  void unpack(std::int64_t first, std::int64_t n, float* out) const override {
    const std::int64_t begin = first * entry_elements(), end = (first + n) * entry_elements();
    look_up_codes(begin, end, out);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t block = i / scales_.block_size;
      const std::int64_t block_end = std::min(end, (block + 1) * scales_.block_size);
      const float scale = scales_.at(block);
      for (; i < block_end; ++i) out[i - begin] *= scale;
    }
  }

 private:
  void look_up_codes(std::int64_t begin, std::int64_t end, float* out) const {
    std::array<float, 16> values{};
    map_.read_scales(0, 16, values.data());
    std::array<float, 512> pairs{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
      pairs[2 * byte] = values[byte >> 4];
      pairs[2 * byte + 1] = values[byte & 15];
    }
    const auto pair_of = [&](std::int64_t i) {
      return pairs.data() + 2 * std::to_integer<int>(codes().data()[static_cast<std::size_t>(i / 2)]);
    };
    std::int64_t i = begin;
    if (i % 2 == 1) *out++ = pair_of(i++)[1];
    for (; i + 1 < end; i += 2, out += 2) std::memcpy(out, pair_of(i), 2 * sizeof(float));
    if (i < end) *out = pair_of(i)[0];
  }

  WeightPart map_;
  BlockScales scales_;
};

void expect_elements(const WeightPart& part, std::int64_t n, const char* what) {
  if (part.tensor->n_elements() != n)
    part.fail(fmt::format("has {} elements, expected {}, one per {}", part.tensor->n_elements(), n, what));
}

// The JSON that stands as bytes in a tensor of its own.
nlohmann::json read_state(const WeightPart& part) {
  part.expect_dtype({"U8"});
  const std::string_view text(reinterpret_cast<const char*>(part.data().data()), part.data().size());
  return parse_json_object(text, fmt::format("{}: tensor {}", part.tensor->file, shown(part.name)));
}

// What was packed: a matrix of as many elements as there are codes.
Shape read_packed_shape(const JsonField& state, const WeightPart& codes) {
  Shape shape;
  const JsonField field = state.member("shape");
  field.for_each([&](const JsonField& each) { shape.push_back(each.integer(1, INT64_MAX)); });
  if (shape.size() != 2) field.fail(fmt::format("{} sizes", shape.size()), "rows and columns");
  std::int64_t n = 0;
  const bool overflows = __builtin_mul_overflow(shape[0], shape[1], &n);
  const auto n_bytes = static_cast<std::int64_t>(codes.data().size());
  // Codes may be stored as any dtype, and then fill up its last element.
  if (overflows || n / 2 + n % 2 > n_bytes || n_bytes - (n / 2 + n % 2) >= 4)
    codes.fail(
        fmt::format("has {} bytes, which do not fit [{}, {}] codes of 4 bits", n_bytes, shape[0], shape[1]));
  return shape;
}

BlockScales read_block_scales(const JsonField& state, const WeightPart& codes, WeightParts& parts,
                              std::int64_t n_elements) {
  constexpr std::int64_t kLargestBlock = 1 << 20;
  BlockScales scales;
  scales.block_size = state.member("blocksize").integer(1, kLargestBlock);
  scales.absmax = parts.need(codes.name + ".absmax", codes);
  const std::int64_t n_blocks = (n_elements - 1) / scales.block_size + 1;
  expect_elements(scales.absmax, n_blocks, "block");
  scales.nested_absmax = parts.find(codes.name + ".nested_absmax");
  if (!scales.nested_absmax) {
    scales.absmax.expect_dtype({"F32"});
    return scales;
  }
  scales.absmax.expect_dtype({"U8"});
  scales.nested_absmax->expect_dtype({"F32"});
  scales.nested_block_size = state.member("nested_blocksize").integer(1, kLargestBlock);
  expect_elements(*scales.nested_absmax, (n_blocks - 1) / scales.nested_block_size + 1, "block of scales");
  scales.nested_map = parts.need(codes.name + ".nested_quant_map", codes);
  scales.nested_map->expect_dtype({"F32"});
  scales.nested_map->expect_shape({256}, "for all codes of scales");
  scales.nested_offset = static_cast<float>(state.member("nested_offset").number());
  if (!std::isfinite(scales.nested_offset)) state.member("nested_offset").fail("no float32", "one");
  return scales;
}

}  // namespace

std::unique_ptr<StoredWeight> make_mxfp4_experts(const std::string& module, const WeightPart& leading,
                                                 WeightParts& parts, const Quantisation&) {
  leading.expect_dtype({"U8"});
  leading.expect_dimensions(4);
  if (leading.size(3) != kBlockBytes)
    leading.fail(fmt::format("has blocks of {} bytes, expected {}", leading.size(3), kBlockBytes));
  const WeightPart scales = parts.need(module + "_scales", leading);
  scales.expect_dtype({"U8", "F8_E8M0"});
  scales.expect_shape({leading.size(0), leading.size(1), leading.size(2)}, "for a scale per block");
  return std::make_unique<ExpertsWeight>(module, leading, scales);
}

// `weight` itself holds the codes; `quant_state` says the rest.
std::unique_ptr<StoredWeight> make_codes4(const std::string& module, const WeightPart& leading,
                                          WeightParts& parts, const Quantisation&) {
  const WeightPart codes = parts.need(module + ".weight", leading);
  const nlohmann::json json = read_state(leading);
  const JsonField state(json, fmt::format("{}: tensor {}", leading.tensor->file, shown(leading.name)), "");
  const Shape shape = read_packed_shape(state, codes);
  const WeightPart map = parts.need(codes.name + ".quant_map", codes);
  map.expect_dtype({"F32"});
  map.expect_shape({16}, "for all codes");
  const bool nf4 = leading.name.ends_with("nf4");
  return std::make_unique<CodesWeight>(codes.name, nf4 ? "NF4" : "FP4", shape, codes, map,
                                       read_block_scales(state, codes, parts, shape[0] * shape[1]));
}

}  // namespace keyscope::capture
