// Weights that are packed for the product x·W, so that a row of the matrix runs down the packed words: GPTQ
// and AWQ.
//
// Sources: GPTQ (arXiv 2210.17323) in the layout of AutoGPTQ's QuantLinear, AWQ (arXiv 2306.00978) in that of
// AutoAWQ's WQLinear_GEMM. Both store integers q, zero points z and scales s of groups of inputs, so that
// weight[output][input] = (q[input][output] - z[group][output]) · s[group][output].

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/json.hpp"
#include "capture/model/packed_weight.hpp"

namespace keyscope::capture {

namespace {

constexpr std::int64_t kBitsInWord = 32;

// Outputs and inputs that are unpacked at once; what they are unpacked to stays in the first cache.
constexpr std::int64_t kTileOutputs = 32, kTileInputs = 64;

std::int64_t rounded_up(std::int64_t n, std::int64_t by) { return n / by + (n % by != 0 ? 1 : 0); }

// Integers of a few bits in int32 words, as one stream of bits down the words of each output.
class IntegersDown {
 public:
  IntegersDown(const WeightPart& part, int bits, std::int64_t n_outputs)
      : data_(part.data().data()), bits_(bits), n_outputs_(n_outputs) {}

  // Of input i and outputs [first, first + n), n at most a tile.
  void read(std::int64_t i, std::int64_t first, std::int64_t n, float* out) const {
    const std::int64_t bit = i * bits_, shift = bit % kBitsInWord;
    const std::uint32_t mask = (1U << bits_) - 1;
    std::array<std::uint32_t, kTileOutputs> words, next{};
    load(bit / kBitsInWord, first, n, words.data());
    if (shift + bits_ <= kBitsInWord) {
      for (std::int64_t o = 0; o < n; ++o)
        out[o] = static_cast<float>(static_cast<std::int32_t>((words[o] >> shift) & mask));
      return;
    }
    load(bit / kBitsInWord + 1, first, n, next.data());  // 3 bits, some of them in the next word
    for (std::int64_t o = 0; o < n; ++o)
      out[o] = static_cast<float>(
          static_cast<std::int32_t>(((words[o] >> shift) | (next[o] << (kBitsInWord - shift))) & mask));
  }

 private:
  void load(std::int64_t word, std::int64_t first, std::int64_t n, std::uint32_t* out) const {
    std::memcpy(out, data_ + 4 * (word * n_outputs_ + first), 4 * static_cast<std::size_t>(n));
  }

  const std::byte* data_;
  int bits_;
  std::int64_t n_outputs_;
};

// The same, as one stream of bits along the words of each input.
class IntegersAlong {
 public:
  IntegersAlong(const WeightPart& part, int bits, std::int64_t n_words)
      : data_(part.data().data()), bits_(bits), n_words_(n_words) {}

  void read(std::int64_t i, std::int64_t first, std::int64_t n, float* out) const {
    for (std::int64_t o = 0; o < n; ++o) {
      const std::int64_t bit = (first + o) * bits_, shift = bit % kBitsInWord;
      std::uint64_t words = load(i, bit / kBitsInWord);
      if (shift + bits_ > kBitsInWord) words |= std::uint64_t{load(i, bit / kBitsInWord + 1)} << kBitsInWord;
      out[o] = static_cast<float>((words >> shift) & ((1U << bits_) - 1));
    }
  }

 private:
  std::uint32_t load(std::int64_t i, std::int64_t word) const {
    std::uint32_t value = 0;
    std::memcpy(&value, data_ + 4 * (i * n_words_ + word), sizeof value);
    return value;
  }

  const std::byte* data_;
  int bits_;
  std::int64_t n_words_;
};

// Eight integers of 4 bits in a word along the outputs, those of even outputs in its lower half.
class InterleavedAlong {
 public:
  InterleavedAlong(const WeightPart& part, std::int64_t n_words)
      : data_(part.data().data()), n_words_(n_words) {}

  void read(std::int64_t i, std::int64_t first, std::int64_t n, float* out) const {
    std::array<float, kTileOutputs + 8> values;  // of whole words
    float* value = values.data();
    for (std::int64_t word = first / 8; word < rounded_up(first + n, 8); ++word, value += 8) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, data_ + 4 * (i * n_words_ + word), sizeof bits);
      for (int pair = 0; pair < 4; ++pair) {
        value[2 * pair] = static_cast<float>((bits >> (4 * pair)) & 15);
        value[2 * pair + 1] = static_cast<float>((bits >> (4 * pair + 16)) & 15);
      }
    }
    std::copy_n(values.data() + first % 8, n, out);
  }

 private:
  const std::byte* data_;
  std::int64_t n_words_;
};

template <typename Codes, typename Zeros>
class ColumnsWeight : public PackedWeight {
 public:
  struct Packing {
    std::int64_t n_outputs, n_inputs, n_groups;
    std::int64_t group_size;          // inputs, where no order says another
    std::optional<WeightPart> order;  // the group of every input
    WeightPart zeros, scales;
    int minus_one_bits;  // of zero points that are stored one less than they are, 0 as all ones; 0: as they
                         // are
  };

  ColumnsWeight(const std::string& name, const std::string& form, const WeightPart& codes, Packing packing,
                Codes read_codes, Zeros read_zeros)
      : PackedWeight(name, form, {packing.n_outputs, packing.n_inputs}, codes),
        packing_(std::move(packing)),
        read_codes_(read_codes),
        read_zeros_(read_zeros) {}

  // Every range of rows is spread over all of it.
  std::vector<std::span<const std::byte>> bytes(std::int64_t, std::int64_t) const override {
    std::vector<std::span<const std::byte>> spans{codes().data(), packing_.zeros.data(),
                                                  packing_.scales.data()};
    if (packing_.order) spans.push_back(packing_.order->data());
    return spans;
  }

  void unpack(std::int64_t first, std::int64_t n, float* out) const override {
    const std::vector<std::int32_t> group_of = groups_of_inputs();
    std::vector<float> scales(static_cast<std::size_t>(packing_.n_groups * kTileOutputs)),
        zeros(scales.size());
    for (std::int64_t o = first; o < first + n; o += kTileOutputs) {
      const std::int64_t n_outputs = std::min(kTileOutputs, first + n - o);
      for (std::int64_t g = 0; g < packing_.n_groups; ++g) {
        packing_.scales.read_scales(g * packing_.n_outputs + o, n_outputs, scales.data() + g * kTileOutputs);
        float* zero = zeros.data() + g * kTileOutputs;
        read_zeros_.read(g, o, n_outputs, zero);
        if (packing_.minus_one_bits > 0) add_one(zero, n_outputs);
      }
      unpack_outputs(o, n_outputs, group_of, scales, zeros, out + (o - first) * packing_.n_inputs);
    }
  }

 private:
  void add_one(float* zeros, std::int64_t n) const {
    const auto all_ones = static_cast<float>((1 << packing_.minus_one_bits) - 1);
    for (std::int64_t i = 0; i < n; ++i) zeros[i] = zeros[i] == all_ones ? 0.0F : zeros[i] + 1.0F;
  }

  std::vector<std::int32_t> groups_of_inputs() const {
    std::vector<std::int32_t> groups(static_cast<std::size_t>(packing_.n_inputs));
    if (packing_.order)
      std::memcpy(groups.data(), packing_.order->data().data(), packing_.order->data().size());
    else
      for (std::size_t i = 0; i < groups.size(); ++i)
        groups[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / packing_.group_size);
    return groups;
  }

  // Outputs [o, o + n_outputs) tile by tile: along the outputs first, as they are packed, then turned.
  void unpack_outputs(std::int64_t o, std::int64_t n_outputs, const std::vector<std::int32_t>& group_of,
                      const std::vector<float>& scales, const std::vector<float>& zeros, float* out) const {
    std::array<float, kTileInputs * kTileOutputs> tile;
    for (std::int64_t begin = 0; begin < packing_.n_inputs; begin += kTileInputs) {
      const std::int64_t n_inputs = std::min(kTileInputs, packing_.n_inputs - begin);
      for (std::int64_t i = 0; i < n_inputs; ++i) {
        float* values = tile.data() + i * kTileOutputs;
        read_codes_.read(begin + i, o, n_outputs, values);
        const std::int64_t group = std::int64_t{group_of[static_cast<std::size_t>(begin + i)]} * kTileOutputs;
        const float *scale = scales.data() + group, *zero = zeros.data() + group;
        for (std::int64_t each = 0; each < n_outputs; ++each)
          values[each] = (values[each] - zero[each]) * scale[each];
      }
      for (std::int64_t each = 0; each < n_outputs; ++each)
        for (std::int64_t i = 0; i < n_inputs; ++i)
          out[each * packing_.n_inputs + begin + i] = tile[static_cast<std::size_t>(i * kTileOutputs + each)];
    }
  }

  Packing packing_;
  Codes read_codes_;
  Zeros read_zeros_;
};

using GptqWeight = ColumnsWeight<IntegersDown, IntegersAlong>;
using AwqWeight = ColumnsWeight<InterleavedAlong, InterleavedAlong>;

void check_words(const WeightPart& part) {
  part.expect_dtype({"I32"});
  part.expect_dimensions(2);
}

// Groups of the scales, and zero points of as many.
template <typename Packing>
void read_groups_of_inputs(const std::string& module, const WeightPart& codes, WeightParts& parts,
                           std::int64_t group_size, std::int64_t zero_words, Packing& packing) {
  packing.group_size = group_size > 0 ? group_size : packing.n_inputs;
  packing.n_groups = rounded_up(packing.n_inputs, packing.group_size);
  const std::string why = fmt::format("for groups of {} of {} inputs and {} outputs", packing.group_size,
                                      packing.n_inputs, packing.n_outputs);
  packing.scales = parts.need(module + ".scales", codes);
  packing.scales.expect_dtype({"F16", "BF16", "F32"});
  packing.scales.expect_shape({packing.n_groups, packing.n_outputs}, why);
  packing.zeros = parts.need(module + ".qzeros", codes);
  check_words(packing.zeros);
  packing.zeros.expect_shape({packing.n_groups, zero_words}, why);
}

}  // namespace

std::unique_ptr<StoredWeight> make_gptq(const std::string& module, const WeightPart& leading,
                                        WeightParts& parts, const Quantisation& quantisation) {
  check_words(leading);
  const int bits = quantisation.bits;
  const std::int64_t n_bits = leading.size(0) * kBitsInWord;
  if (n_bits % bits != 0)
    leading.fail(
        fmt::format("has {} words down, which do not hold whole integers of {} bits", leading.size(0), bits));
  GptqWeight::Packing packing{.n_outputs = leading.size(1),
                              .n_inputs = n_bits / bits,
                              .n_groups = 0,
                              .group_size = 0,
                              .order = {},
                              .zeros = {},
                              .scales = {},
                              .minus_one_bits = quantisation.zeros_minus_one ? bits : 0};
  const std::int64_t zero_words = rounded_up(packing.n_outputs * bits, kBitsInWord);
  read_groups_of_inputs(module, leading, parts, quantisation.group_size, zero_words, packing);
  packing.order = parts.find(module + ".g_idx");
  if (packing.order) {
    packing.order->expect_dtype({"I32"});
    packing.order->expect_shape({packing.n_inputs}, "for a group per input");
    for (std::int64_t i = 0; i < packing.n_inputs; ++i) {
      std::int32_t group = 0;
      std::memcpy(&group, packing.order->data().data() + 4 * i, sizeof group);
      if (group < 0 || group >= packing.n_groups)
        packing.order->fail(
            fmt::format("holds {} at {}, expected a group from 0 to {}", group, i, packing.n_groups - 1));
    }
  } else if (quantisation.desc_act) {
    leading.fail(fmt::format("is packed with desc_act, and {}.g_idx, which it needs, is missing", module));
  }
  const IntegersDown codes(leading, bits, packing.n_outputs);
  const IntegersAlong zeros(packing.zeros, bits, zero_words);
  return std::make_unique<GptqWeight>(module + ".weight", fmt::format("GPTQ{}", bits), leading,
                                      std::move(packing), codes, zeros);
}

std::unique_ptr<StoredWeight> make_awq(const std::string& module, const WeightPart& leading,
                                       WeightParts& parts, const Quantisation& quantisation) {
  check_words(leading);
  const std::int64_t n_words = leading.size(1);
  AwqWeight::Packing packing{.n_outputs = 8 * n_words,
                             .n_inputs = leading.size(0),
                             .n_groups = 0,
                             .group_size = 0,
                             .order = {},
                             .zeros = {},
                             .scales = {},
                             .minus_one_bits = 0};
  if (quantisation.group_size > 0 && packing.n_inputs % quantisation.group_size != 0)
    leading.fail(fmt::format("has {} inputs, expected a multiple of the groups' size, {}", packing.n_inputs,
                             quantisation.group_size));
  read_groups_of_inputs(module, leading, parts, quantisation.group_size, n_words, packing);
  const InterleavedAlong codes(leading, n_words), zeros(packing.zeros, n_words);
  return std::make_unique<AwqWeight>(module + ".weight", "AWQ4", leading, std::move(packing), codes, zeros);
}

}  // namespace keyscope::capture
