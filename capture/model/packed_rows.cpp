// Weights that are packed row by row, as they are multiplied: 8-bit floats and integers, and what
// compressed-tensors packs.
//
// Sources: the compressed-tensors format as its package 0.20 reads it
// (github.com/vllm-project/compressed-tensors); DeepSeek-V3's README_WEIGHTS.md for `weight_scale_inv`;
// LLM.int8() (arXiv 2208.07339) for scales of rows.

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/json.hpp"
#include "capture/model/packed_weight.hpp"

namespace keyscope::capture {

namespace {

constexpr std::int64_t kWordBits = 32;

std::int64_t ceiling(std::int64_t n, std::int64_t by) { return n / by + (n % by != 0 ? 1 : 0); }

std::int32_t word_at(const WeightPart& part, std::int64_t index) {
  std::int32_t word = 0;
  std::memcpy(&word, part.data().data() + 4 * index, sizeof word);
  return word;
}

// Integers that are stored with half their range added, lowest bits first: the values of every byte.
template <int kBits>
std::span<const float> integer_values() {
  constexpr int kPerByte = 8 / kBits;
  static const auto table = [] {
    std::array<float, 256 * kPerByte> values{};
    for (int byte = 0; byte < 256; ++byte)
      for (int i = 0; i < kPerByte; ++i) {
        const int code = (byte >> (i * kBits)) & ((1 << kBits) - 1);
        values[byte * kPerByte + i] = static_cast<float>(code - (1 << (kBits - 1)));
      }
    return values;
  }();
  return table;
}

std::span<const float> packed_integers(int bits) {
  if (bits == 2) return integer_values<2>();
  return bits == 4 ? integer_values<4>() : integer_values<8>();
}

// Two's complement.
std::span<const float> int8_values() {
  static const auto table = [] {
    std::array<float, 256> values{};
    for (int byte = 0; byte < 256; ++byte) values[byte] = static_cast<float>(byte < 128 ? byte : byte - 256);
    return values;
  }();
  return table;
}

template <int kPerByte>
void look_up(std::span<const std::byte> codes, const float* table, float* out) {
  for (const std::byte code : codes) {
    std::memcpy(out, table + kPerByte * std::to_integer<int>(code), kPerByte * sizeof(float));
    out += kPerByte;
  }
}

struct RowPacking {
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_bytes = 0;    // from one row's codes to the next
  std::span<const float> table;  // the values of every byte
  WeightPart scales;
  std::int64_t scale_rows = 1, scale_columns = 1;  // that share a scale
  float divisor = 1;                               // of all scales
  float factor = 1;                                // of the products
  std::optional<WeightPart> zeros;                 // int8 as the scales lie, or packed along the rows
  int zero_bits = 8;
  std::optional<WeightPart> order;  // the group of every column

  std::int64_t n_groups() const { return ceiling(columns, scale_columns); }
};

// weight[r][c] = (code[r][c] - zero[g]) · (scale[g] / divisor) · factor, in float32 and in this order, where
// g is the group of row r and column c.
class RowsWeight : public PackedWeight {
 public:
  RowsWeight(const std::string& name, const std::string& form, const WeightPart& codes, RowPacking packing)
      : PackedWeight(name, form, {packing.rows, packing.columns}, codes), packing_(std::move(packing)) {}

  std::vector<std::span<const std::byte>> bytes(std::int64_t first, std::int64_t n) const override {
    const auto row_bytes = static_cast<std::size_t>(packing_.row_bytes);
    std::vector<std::span<const std::byte>> spans{
        codes().data().subspan(row_bytes * static_cast<std::size_t>(first),
                               row_bytes * static_cast<std::size_t>(n)),
        packing_.scales.data()};
    if (packing_.zeros) spans.push_back(packing_.zeros->data());
    if (packing_.order) spans.push_back(packing_.order->data());
    return spans;
  }

  void unpack(std::int64_t first, std::int64_t n, float* out) const override {
    const auto per_byte = static_cast<std::int64_t>(packing_.table.size() / 256);
    const auto used_bytes = static_cast<std::size_t>(ceiling(packing_.columns, per_byte));
    std::vector<float> values(used_bytes * static_cast<std::size_t>(per_byte));
    Groups groups(static_cast<std::size_t>(packing_.n_groups()));
    for (std::int64_t row = first; row < first + n; ++row, out += packing_.columns) {
      const auto row_codes =
          codes().data().subspan(static_cast<std::size_t>(row * packing_.row_bytes), used_bytes);
      if (per_byte == 1)
        look_up<1>(row_codes, packing_.table.data(), values.data());
      else if (per_byte == 2)
        look_up<2>(row_codes, packing_.table.data(), values.data());
      else
        look_up<4>(row_codes, packing_.table.data(), values.data());
      read_groups(row, groups);
      scale_row(values.data(), groups, out);
    }
  }

 private:
  // Scales and zero points of one row.
  struct Groups {
    explicit Groups(std::size_t n) : scales(n), zeros(n, 0.0F) {}
    std::vector<float> scales, zeros;
    std::int64_t scale_row = -1;  // which the scales are of
  };

  void read_groups(std::int64_t row, Groups& groups) const {
    const std::int64_t n = packing_.n_groups(), scale_row = row / packing_.scale_rows;
    if (scale_row != groups.scale_row) {
      packing_.scales.read_scales(scale_row * n, n, groups.scales.data());
      if (packing_.divisor != 1)
        for (float& scale : groups.scales) scale /= packing_.divisor;
      groups.scale_row = scale_row;
    }
    if (!packing_.zeros) return;
    if (packing_.zeros->dtype() == "I8") {
      look_up<1>(packing_.zeros->data().subspan(static_cast<std::size_t>(scale_row * n), groups.zeros.size()),
                 int8_values().data(), groups.zeros.data());
      return;
    }
    const std::int64_t bit = row * packing_.zero_bits;
    for (std::int64_t g = 0; g < n; ++g) {
      const auto word = static_cast<std::uint32_t>(word_at(*packing_.zeros, bit / kWordBits * n + g));
      const std::uint32_t code = (word >> (bit % kWordBits)) & ((1U << packing_.zero_bits) - 1);
      groups.zeros[static_cast<std::size_t>(g)] =
          static_cast<float>(code) - static_cast<float>(1 << (packing_.zero_bits - 1));
    }
  }

  void scale_row(const float* values, const Groups& groups, float* out) const {
    if (packing_.order) {
      for (std::int64_t c = 0; c < packing_.columns; ++c) {
        const auto g = static_cast<std::size_t>(word_at(*packing_.order, c));
        out[c] = (values[c] - groups.zeros[g]) * groups.scales[g];
      }
      return;
    }
    for (std::int64_t g = 0; g < packing_.n_groups(); ++g) {
      const float scale = groups.scales[static_cast<std::size_t>(g)];
      const float zero = groups.zeros[static_cast<std::size_t>(g)];
      const std::int64_t begin = g * packing_.scale_columns;
      const std::int64_t end = std::min(begin + packing_.scale_columns, packing_.columns);
      for (std::int64_t c = begin; c < end; ++c) out[c] = (values[c] - zero) * scale;
      if (packing_.factor != 1)
        for (std::int64_t c = begin; c < end; ++c) out[c] *= packing_.factor;
    }
  }

  RowPacking packing_;
};

// Scales that stand for a whole tensor, or for rows, may have fewer dimensions than the grid they are.
bool is_scalar(const WeightPart& part) { return part.tensor->n_elements() == 1 && part.shape().size() <= 2; }

bool is_a_row_each(const WeightPart& part, std::int64_t rows) {
  return part.shape() == Shape{rows} || part.shape() == Shape{rows, 1};
}

void one_scale(RowPacking& packing) {
  packing.scale_rows = packing.rows;
  packing.scale_columns = packing.columns;
}

void a_scale_per_row(RowPacking& packing) {
  packing.scale_rows = 1;
  packing.scale_columns = packing.columns;
}

void scale_blocks(RowPacking& packing, std::int64_t block_rows, std::int64_t block_columns) {
  packing.scale_rows = block_rows;
  packing.scale_columns = block_columns;
  packing.scales.expect_shape({ceiling(packing.rows, block_rows), packing.n_groups()},
                              fmt::format("for blocks of {} x {} of [{}, {}]", block_rows, block_columns,
                                          packing.rows, packing.columns));
}

// Of 8-bit codes, a byte each.
RowPacking byte_rows(const WeightPart& codes) {
  codes.expect_dimensions(2);
  RowPacking packing;
  packing.rows = codes.size(0);
  packing.columns = packing.row_bytes = codes.size(1);
  packing.table = codes.dtype() == "I8" ? int8_values() : float8_values(codes.dtype());
  return packing;
}

// --- compressed-tensors ---

bool is_packed4_float(const PackingScheme& scheme) { return scheme.is_float && scheme.bits == 4; }

// Two floats a byte.
RowPacking float4_rows(const WeightPart& codes) {
  codes.expect_dtype({"U8"});
  codes.expect_dimensions(2);
  RowPacking packing;
  packing.rows = codes.size(0);
  packing.row_bytes = codes.size(1);
  packing.columns = 2 * codes.size(1);
  packing.table = float4_pairs();
  return packing;
}

// The shape that was packed: two integers, as the words are filled up at a row's end.
RowPacking integer_rows(const std::string& module, const WeightPart& codes, WeightParts& parts, int bits) {
  codes.expect_dtype({"I32"});
  codes.expect_dimensions(2);
  const WeightPart shape = parts.need(module + ".weight_shape", codes);
  shape.expect_dtype({"I32", "I64"});
  shape.expect_shape({2}, "for rows and columns");
  std::array<std::int64_t, 2> sizes{};
  if (shape.dtype() == "I64")
    std::memcpy(sizes.data(), shape.data().data(), sizeof sizes);
  else
    sizes = {word_at(shape, 0), word_at(shape, 1)};
  const std::int64_t n_words = codes.size(1), most = n_words * (kWordBits / bits);
  if (sizes[0] != codes.size(0) || sizes[1] < 1 || sizes[1] > most ||
      ceiling(sizes[1], kWordBits / bits) != n_words)
    shape.fail(fmt::format("says [{}, {}], which does not fit {} rows of {} words of {} bits", sizes[0],
                           sizes[1], codes.size(0), n_words, bits));
  RowPacking packing;
  packing.rows = sizes[0];
  packing.columns = sizes[1];
  packing.row_bytes = 4 * n_words;
  packing.table = packed_integers(bits);
  return packing;
}

void read_order(const std::string& module, WeightParts& parts, RowPacking& packing) {
  auto order = parts.find(module + ".weight_g_idx");
  if (!order) return;
  order->expect_dtype({"I32"});
  order->expect_shape({packing.columns}, "for a group per column");
  bool unset = true;
  for (std::int64_t c = 0; c < packing.columns; ++c) unset = unset && word_at(*order, c) == -1;
  if (unset) return;  // as it is written where columns are in their order
  for (std::int64_t c = 0; c < packing.columns; ++c)
    if (const std::int32_t g = word_at(*order, c); g < 0 || g >= packing.n_groups())
      order->fail(fmt::format("holds {} at {}, expected a group from 0 to {}", g, c, packing.n_groups() - 1));
  packing.order = std::move(order);
}

void read_zeros(const std::string& module, const WeightPart& codes, WeightParts& parts,
                const PackingScheme& scheme, RowPacking& packing) {
  const std::string name = module + ".weight_zero_point";
  if (scheme.symmetric) {
    parts.drop(name);  // zeros, where it is there
    return;
  }
  packing.zeros = parts.need(name, codes);
  packing.zeros->expect_dtype({"I8", "I32"});
  packing.zero_bits = scheme.bits;
  if (packing.zeros->dtype() == "I8") {
    if (packing.zeros->tensor->n_elements() != packing.scales.tensor->n_elements())
      packing.zeros->fail("has not as many elements as the scales");
    return;
  }
  if (scheme.strategy == PackingScheme::Strategy::kTensor)
    packing.zeros->fail("is I32, expected I8 for one zero point");
  packing.zeros->expect_shape({ceiling(packing.rows, kWordBits / scheme.bits), packing.n_groups()},
                              "for a zero point per row and group");
}

void place_scales(const PackingScheme& scheme, RowPacking& packing) {
  using enum PackingScheme::Strategy;
  switch (scheme.strategy) {
    case kTensor:
      if (!is_scalar(packing.scales)) packing.scales.expect_shape({1}, "for the whole tensor");
      return one_scale(packing);
    case kChannel:
      if (!is_a_row_each(packing.scales, packing.rows))
        packing.scales.expect_shape({packing.rows, 1}, "for a scale per row");
      return a_scale_per_row(packing);
    case kGroup:
      if (packing.columns % scheme.group_size != 0)
        packing.scales.fail(fmt::format("belongs to {} columns, expected a multiple of the groups' size, {}",
                                        packing.columns, scheme.group_size));
      packing.scale_rows = 1;
      packing.scale_columns = scheme.group_size;
      return packing.scales.expect_shape({packing.rows, packing.n_groups()}, "for a scale per row and group");
    case kBlock:
      scale_blocks(packing, scheme.block_rows, scheme.block_columns);
  }
}

// Scales of 4-bit floats are 8-bit floats themselves, over one scale of all, or powers of two.
void read_compressed_scales(const std::string& module, const WeightPart& codes, WeightParts& parts,
                            const PackingScheme& scheme, RowPacking& packing) {
  packing.scales = parts.need(module + ".weight_scale", codes);
  if (scheme.format == "nvfp4-pack-quantized") {
    packing.scales.expect_dtype({"F8_E4M3"});
    const WeightPart global = parts.need(module + ".weight_global_scale", codes);
    global.expect_dtype({"F32"});
    if (!is_scalar(global)) global.expect_shape({1}, "for the whole tensor");
    global.read_scales(0, 1, &packing.divisor);
    if (packing.divisor == 0) global.fail("is 0, by which all scales are divided");
  } else if (scheme.format == "mxfp4-pack-quantized" || scheme.format == "mxfp8-quantized") {
    packing.scales.expect_dtype({"U8", "F8_E8M0"});
  } else {
    packing.scales.expect_dtype({"F32", "BF16", "F16"});
  }
  place_scales(scheme, packing);
}

std::string form_of(const PackingScheme& scheme) {
  if (scheme.format == "nvfp4-pack-quantized") return "NVFP4";
  if (scheme.format.starts_with("mxfp")) return fmt::format("MXFP{}", scheme.bits);
  return scheme.is_float ? "F8_E4M3" : fmt::format("INT{}", scheme.bits);
}

}  // namespace

// `weight` is a byte a value; `weight_scale_inv`, which is multiplied by, has one per block, or as
// `weight_scale` one per row or one in all.
std::unique_ptr<StoredWeight> make_fp8(const std::string& module, const WeightPart& leading,
                                       WeightParts& parts, const Quantisation& quantisation) {
  RowPacking packing = byte_rows(leading);
  auto scales = parts.find(module + ".weight_scale_inv");
  if (!scales) scales = parts.find(module + ".weight_scale");
  if (!scales)
    leading.fail(
        fmt::format("is {}, and {}.weight_scale_inv, which it needs, is missing", leading.dtype(), module));
  scales->expect_dtype({"F32", "BF16", "F16", "U8", "F8_E8M0"});
  packing.scales = *scales;
  const bool may_lack_blocks = quantisation.block_rows == 0 || quantisation.blocks_by_default;
  if (is_scalar(*scales) && may_lack_blocks)
    one_scale(packing);
  else if (is_a_row_each(*scales, packing.rows) && may_lack_blocks)
    a_scale_per_row(packing);
  else if (quantisation.block_rows > 0)
    scale_blocks(packing, quantisation.block_rows, quantisation.block_columns);
  else
    scales->expect_shape({packing.rows, 1}, "for a scale per row, or one in all");
  return std::make_unique<RowsWeight>(leading.name, leading.dtype(), leading, std::move(packing));
}

std::unique_ptr<StoredWeight> make_compressed(const std::string& module, const WeightPart& leading,
                                              WeightParts& parts, const Quantisation& quantisation) {
  const PackingScheme* scheme = scheme_of(quantisation, module);
  if (scheme == nullptr)
    leading.fail(
        fmt::format("is packed, and no group in {} has its module among its targets", quantisation.where));
  const bool packed_name = leading.name.ends_with(".weight_packed");
  const bool packed_format = scheme->format.ends_with("pack-quantized");
  if (packed_name != packed_format)
    leading.fail(fmt::format("is there, expected {}.weight{} in the format {} of {}", module,
                             packed_format ? "_packed" : "", scheme->format, scheme->group));
  if (!packed_name) leading.expect_dtype({scheme->is_float ? "F8_E4M3" : "I8"});
  RowPacking packing = is_packed4_float(*scheme) ? float4_rows(leading)
                       : packed_name             ? integer_rows(module, leading, parts, scheme->bits)
                                                 : byte_rows(leading);
  read_compressed_scales(module, leading, parts, *scheme, packing);
  read_zeros(module, leading, parts, *scheme, packing);
  read_order(module, parts, packing);
  return std::make_unique<RowsWeight>(module + ".weight", form_of(*scheme), leading, std::move(packing));
}

// bitsandbytes: `SCB` is the largest size in each row, which 127 stands for.
std::unique_ptr<StoredWeight> make_int8(const std::string& module, const WeightPart& leading,
                                        WeightParts& parts, const Quantisation&) {
  RowPacking packing = byte_rows(leading);
  packing.scales = parts.need(module + ".SCB", leading);
  packing.scales.expect_dtype({"F32"});
  packing.scales.expect_shape({packing.rows}, "for a scale per row");
  packing.factor = 7.874015718698502e-3F;  // 1 / 127, as the package has it
  a_scale_per_row(packing);
  return std::make_unique<RowsWeight>(leading.name, "INT8", leading, std::move(packing));
}

}  // namespace keyscope::capture
